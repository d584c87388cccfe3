from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from hindsight.specs.base import FIDELITIES, NUMBER, EnvironmentSpec, Few, Fidelity, Positive

#: Preys, functions in hindsight.envs.prey, and their fidelities: two for a prey that uses the
#: orthogonal vector, in which these differ.
PREYS: dict[str, tuple[Fidelity, ...]] = {
    "static": ("released",),
    "random": ("released",),
    "attract": FIDELITIES,
    "repel": FIDELITIES,
    "straight_away": ("released",),
    "random_direction": ("released",),
}
Spawn = Literal["random", "apart"]
if TYPE_CHECKING:
    Prey = str
else:  # fingerprints skip this: a cell depends only on its own prey
    Prey = Literal[tuple(PREYS)]
SPAWNS: tuple[Spawn, ...] = get_args(Spawn)


class PredatorPreySpec(EnvironmentSpec):
    """The environment of both papers (PPO-HER section 4, completed from the released code)."""

    entry_point: ClassVar[str] = "hindsight.envs.predator_prey:PredatorPrey"
    goals_in_box: ClassVar[bool] = True
    truncates: ClassVar[bool] = False

    id: Literal["PredatorPrey-v0"] = "PredatorPrey-v0"
    n_dims: Annotated[int, Field(ge=2, le=100), NUMBER] = 3
    """Dimensions of the box. The papers: 2 to 6."""
    grid_size: Positive = 10.0
    """Half of the box's width. The papers: 10 to 50."""
    interception_distance: Positive = 1.0
    """Distance at which the prey is caught."""
    max_steps: Few = 20
    """An episode fails at the step after this many: it has up to `max_steps` + 1."""
    prey: Prey = "static"
    """How the prey moves."""
    spawn: Spawn = "random"
    """random: positions are drawn; apart: the predator in the centre, the prey half-way to a
    wall."""
    fidelity: Fidelity = "released"
    """released: the preys attract and repel move as in the authors' code; described: as the papers
    say."""
    pushes_object: bool = False
    """The achieved goal is an object that moves only while touched, instead of the predator."""

    @model_validator(mode="after")
    def _spawn_is_possible(self) -> "PredatorPreySpec":
        # Spawning redraws positions until predator and prey are apart: half the box keeps it fast.
        if self.interception_distance >= self.grid_size / 2:
            raise ValueError(
                f"interception_distance {self.interception_distance:g} must be below half of "
                f"grid_size {self.grid_size:g}: otherwise an episode can begin solved"
            )
        return self

    @property
    def code(self) -> tuple[str, ...]:
        return (*super().code, f"hindsight.envs.prey:{self.prey}")

    @property
    def step_limit(self) -> int:
        """Maximum length of an episode, which fails once it takes more than `max_steps`."""
        return self.max_steps + 1

    @property
    def observation_size(self) -> int:
        return (4 if self.pushes_object else 3) * self.n_dims

    @property
    def action_size(self) -> int:
        return self.n_dims

    @property
    def words(self) -> str:
        size = f"n{self.n_dims}-G{self.grid_size:g}-r{self.interception_distance:g}"
        return f"{self.spawn}-{self.prey}-{size}" + ("-object" if self.pushes_object else "")

    @model_validator(mode="after")
    def _fidelity_where_it_matters(self) -> "PredatorPreySpec":
        # Looked up at run time, so that a cell's fingerprint does not cover other preys.
        if self.fidelity not in globals()["PREYS"][self.prey]:
            self._reset("fidelity")  # both fidelities share their cells
        return self
