"""Other people's goal environments: tried before training, and stepped in processes."""
