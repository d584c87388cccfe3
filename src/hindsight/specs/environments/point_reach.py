from typing import ClassVar, Literal

from pydantic import model_validator

from hindsight.specs.base import EnvironmentSpec, Few, Positive


class PointReachSpec(EnvironmentSpec):
    """Move a point mass in the square [-range, range]^2 to within `threshold` of a random target.

    Each velocity component changes by at most `action_scale` x `dt` per step and is clipped to
    `max_speed`.
    """

    entry_point: ClassVar[str] = "hindsight.envs.point_reach:PointReach"
    goals_in_box: ClassVar[bool] = True
    ends_early: ClassVar[bool] = False
    aliases: ClassVar[dict[str, str]] = {
        "goal_range": "range", "distance_threshold": "threshold", "max_episode_steps": "max_steps",
    }  # fmt: skip
    observation_size: ClassVar[int] = 8
    action_size: ClassVar[int] = 2

    id: Literal["PointReach-v0"] = "PointReach-v0"
    max_steps: Few = 50
    """Steps of an episode."""
    dt: Positive = 0.05
    """Seconds of a step."""
    range: Positive = 1.0
    """Half of the square's width; `goal_range` means the same."""
    max_speed: Positive = 1.0
    """Largest speed in each direction."""
    threshold: Positive = 0.05
    """Distance at which the target is reached; `distance_threshold` means the same."""
    action_scale: Positive = 10.0
    """Acceleration of an action of 1."""

    @property
    def step_limit(self) -> int:
        return self.max_steps

    @model_validator(mode="after")
    def _targets_are_to_be_reached(self) -> "PointReachSpec":
        # Two uniform points are closer than half the side in 48% of cases.
        if self.threshold >= self.range:
            raise ValueError(
                f"threshold {self.threshold:g} must be below range {self.range:g}: "
                "otherwise half of the episodes begin at their target"
            )
        return self
