"""What the workflow finds in its folders."""

from hindsight.workflow import files_below


def test_only_files_of_the_kind_that_is_asked_for_are_there(tmp_path):
    place = tmp_path / "random-static-n3-G10-r0.5"
    place.mkdir()
    for name in ("ppo-lr0.0003.parquet", "sac.parquet.damaged", "td3.hidden", "dqn.lock"):
        (place / name).touch()
    (tmp_path / "a file.parquet").touch()
    assert files_below(tmp_path) == {"random-static-n3-G10-r0.5/ppo-lr0.0003"}
    assert files_below(tmp_path, ".lock") == {"random-static-n3-G10-r0.5/dqn"}
    assert files_below(tmp_path / "none") == set()
