"""What every specification shares: strictness, the kinds of numbers, and what it says of itself.

An environment's or an algorithm's specification says which code is its own (`entry_point`; `module`
and `loop`) and whatever else others must know of it, so that no room asks which one it has.  These
names, and the module of the specification itself, are the roots of the code that decides a cell's
numbers: what they import, directly or not, is all of it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hindsight.specs.errors import UNKNOWN_KEY, guess

if TYPE_CHECKING:
    import gymnasium


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number")
    return value


#: Of every field that is a number: true would be 1.
NUMBER = BeforeValidator(_no_truth)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), NUMBER]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1), NUMBER]
Share = Annotated[float, Field(gt=0, le=1), NUMBER]
#: More than these is a slip of the finger: nobody trains so long, or so many.
Count = Annotated[int, Field(ge=1, le=10**10), NUMBER]
Seeds = Annotated[int, Field(ge=1, le=10**4), NUMBER]
TwoOrMore = Annotated[int, Field(ge=2), NUMBER]
Width = Annotated[int, Field(ge=1, le=10**5), NUMBER]
Widths = Annotated[tuple[Width, ...], Field(min_length=1, max_length=100)]
#: What the authors' code does, or what the papers say.
Fidelity = Literal["released", "described"]
FIDELITIES: tuple[Fidelity, ...] = get_args(Fidelity)
#: Names of devices.
DEVICES = "^(cpu|cuda(:[0-9]{1,3})?)$"
#: The goal dictionary, in the order in which a policy sees it.
GOAL_KEYS = ("achieved_goal", "desired_goal", "observation")


class Spec(BaseModel):
    """Immutable, and strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, values: Any) -> Any:
        """Refuse an unknown key, with a guess at what was meant or the keys there are."""
        for key in map(str, values if isinstance(values, dict) else ()):
            if key not in cls.model_fields:
                meant = guess(key, cls.model_fields)
                meant = meant or f"; there are {', '.join(sorted(cls.model_fields))}"
                raise PydanticCustomError(UNKNOWN_KEY, "{meant}", {"key": key, "meant": meant})
        return values

    def _reset(self, *names: str) -> None:
        """Give fields without effect their defaults: one name for one training."""
        for name in names:
            object.__setattr__(self, name, type(self).model_fields[name].default)


class EnvironmentSpec(Spec):
    """A goal environment."""

    #: `module:class` of what steps it on the run axis (`envs.environment.Environment`).
    entry_point: ClassVar[str]
    #: Its goals fill a box, so that a share of it and a distance in any direction are goals, too.
    goals_in_box: ClassVar[bool] = False
    #: Somebody else's: it does not tell which goals there are, and is stepped by other processes.
    foreign: ClassVar[bool] = False

    if TYPE_CHECKING:
        id: str = ""

    @property
    @abstractmethod
    def step_limit(self) -> int:
        """Steps of the longest episode."""

    @property
    @abstractmethod
    def observation_size(self) -> int:
        """Numbers a policy sees: achieved goal, desired goal, observation."""

    @property
    @abstractmethod
    def action_size(self) -> int:
        """Numbers in an action; a choice is one number."""

    @property
    def n_choices(self) -> int | None:
        """Actions are 0 ... n_choices - 1; None: they are continuous."""
        return None

    @property
    def n_outputs(self) -> int:
        """Numbers in an action, or choices where actions are discrete: a policy's outputs."""
        return self.n_choices or self.action_size

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it before training, one sentence each."""
        return ()

    @property
    def code(self) -> tuple[str, ...]:
        """Where the code begins that steps it, `module` or `module:name` (`fingerprint`)."""
        return (self.entry_point.partition(":")[0],)

    @property
    def own_code(self) -> str:
        """A digest of its source, where that is a person's own; else empty."""
        return ""

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that a person's own environment uses, by their names."""
        return {}

    @property
    def words(self) -> str:
        """It, in the path of a cell."""
        return self.id.removesuffix("-v0")

    def with_parameters(self, given: dict[str, Any]) -> Self:
        """The same with other parameters; pydantic's ValidationError for what is none."""
        return type(self).model_validate({**self.model_dump(), **given})

    def make(self, **options: Any) -> "gymnasium.Env[Any, Any]":
        """A single one, as gymnasium makes it; `options` such as render_mode."""
        import gymnasium

        return gymnasium.make(self.id, **self.model_dump(exclude={"id"}), **options)

    def succeeded(
        self, before: Mapping[str, Any], obs: Mapping[str, Any], info: Mapping[str, Any]
    ) -> bool:
        """Whether the step from one observation to the next achieved the goal that it pursued."""
        return bool(info["is_success"])

    @property
    def keys(self) -> tuple[str, ...]:
        """Parts of an observation, in the order in which a policy sees them."""
        return GOAL_KEYS


class AlgorithmSpec(Spec):
    """A learning algorithm."""

    #: Where its mathematics stands.
    module: ClassVar[str]
    #: Where the same stands compiled, for a CPU; empty: nowhere.
    compiled_module: ClassVar[str] = ""
    #: `module:class` of the loop that trains it.
    loop: ClassVar[str]
    #: It learns from what its own policy has just done, by `hindsight`; else from `replay`.
    on_policy: ClassVar[bool]
    #: The actions that it is for.
    actions: ClassVar[Literal["any", "continuous", "discrete"]] = "any"
    #: While it trains, its policy draws its actions; else only the loop adds noise to them.
    stochastic: ClassVar[bool] = True
    #: Where the authors trained it, a test ended its runs, too (`EndTestSpec`).
    ends_by_test: ClassVar[bool] = False

    #: Passes through a network, forward and backward, in an update: in units of DDPG's ten.
    passes: ClassVar[float] = 1.0

    if TYPE_CHECKING:
        name: str = ""
        hidden: tuple[int, ...] = ()
        learning_rate: float = 0.0
        n_envs: int = 0
        batch_size: int = 0

    @property
    @abstractmethod
    def iteration_steps(self) -> int:
        """Steps of each environment between two rows of the curves."""

    @abstractmethod
    def updates(self, steps: int, copies: int) -> float:
        """Minibatches that are learned from in so many steps of each environment.

        `copies`: how many of each step an on-policy algorithm learns from beside it.
        """

    @abstractmethod
    def most_stored(self, steps: int, copies: int) -> int:
        """Transitions of a run, and copies, that are in memory at a time at most."""

    @property
    def squashes(self) -> bool:
        """Whether continuous actions are the hyperbolic tangent of its network's outputs."""
        return True

    @property
    def initialisation(self) -> tuple[float, ...]:
        """What decides a run's first parameters, beside its seed and its networks."""
        return ()

    @property
    def continuous_only(self) -> str:
        """Keys that are set and need continuous actions, as words; empty without any."""
        return ""

    @property
    def words(self) -> str:
        """It, in the path of a cell."""
        return self.name
