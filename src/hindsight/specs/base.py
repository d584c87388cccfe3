"""Base classes of all specifications, and the numeric types of their fields.

The specification of an environment or an algorithm names its implementation (`entry_point`;
`module` and `loop`) and declares its properties, so that no other package names a particular one.
"""

import importlib.util
import pkgutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hindsight.specs.errors import SpecError, guess, shortened, validated

if TYPE_CHECKING:
    import gymnasium


def _not_a_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


#: Rejects booleans, which Python counts as integers.
NUMBER = BeforeValidator(_not_a_boolean)
#: The numbers of a specification.  Their upper bounds, at least ten times what is used in practice,
#: catch typing errors, and keep a file from somebody else from exhausting the memory.
MOST = 10**6
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False), NUMBER]
NonNegative = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False), NUMBER]
Fraction = Annotated[float, Field(ge=0, le=1), NUMBER]
Share = Annotated[float, Field(gt=0, le=1), NUMBER]
Count = Annotated[int, Field(ge=1, le=MOST), NUMBER]
TwoOrMore = Annotated[int, Field(ge=2, le=MOST), NUMBER]
#: Seeds, widths of layers, and steps of an episode.
Few = Annotated[int, Field(ge=1, le=10**4), NUMBER]
#: Steps of a training.
Steps = Annotated[int, Field(ge=1, le=10**10), NUMBER]
Widths = Annotated[tuple[Few, ...], Field(min_length=1, max_length=100)]
#: Follow the authors' released code, or the papers' text.
Fidelity = Literal["released", "described"]
FIDELITIES: tuple[Fidelity, ...] = get_args(Fidelity)
#: Whether an episode succeeds by its last step, or by any of its steps.
Success = Literal["last", "any"]
DEVICES = "^(cpu|cuda(:[0-9]{1,3})?)$"
#: Action spaces that an algorithm may support.
Actions = Literal["any", "continuous", "discrete"]
#: Keys of a goal environment's observation, in the order of the policy's input.
GOAL_KEYS = ("achieved_goal", "desired_goal", "observation")


class Spec(BaseModel):
    """An immutable model that rejects unknown keys.

    The string below a field says what it does and, for a number, its usual range; `specs.settings`
    makes them pydantic's descriptions.
    """

    #: Other names of fields.
    aliases: ClassVar[dict[str, str]] = {}
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, values: Any) -> Any:
        """Reject an unknown key; suggest the closest one, or list them all."""
        if isinstance(values, dict):
            values = cls.by_field(values)
        for key in map(str, values if isinstance(values, dict) else ()):
            if key not in cls.model_fields:
                known = f"; choose from {', '.join(sorted(cls.model_fields))}"
                meant = guess(key, cls.model_fields) or known
                raise ValueError(f"unknown key {shortened(key)!r}{meant}")
        return values

    @classmethod
    def by_field(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of their fields; SpecError if one is given by two names."""
        found = {cls.aliases.get(key, key): value for key, value in given.items()}
        for alias, name in cls.aliases.items() if len(found) < len(given) else ():
            if alias in given and name in given:
                raise SpecError(f"{alias} and {name} are the same: give one")
        return found

    def _reset(self, *names: str) -> None:
        """Reset fields without effect to their defaults, so that equal trainings share a name."""
        for name in names:
            object.__setattr__(self, name, type(self).model_fields[name].default)


class EnvironmentSpec(Spec):
    """Specification of a goal environment."""

    #: `module:class` of the implementation that steps many runs (`envs.environment.Environment`).
    entry_point: ClassVar[str]
    #: Whether an episode can end before its step limit.
    ends_early: ClassVar[bool] = True
    #: Whether its step limit truncates episodes; if not, it terminates them.
    truncates: ClassVar[bool] = True
    #: Whether the goal space is a box, so that any point of it is a goal.
    goals_in_box: ClassVar[bool] = False
    #: A third-party environment: its goal space is unknown, and worker processes step it.
    foreign: ClassVar[bool] = False

    if TYPE_CHECKING:
        id: str = ""

    @property
    @abstractmethod
    def step_limit(self) -> int:
        """Maximum length of an episode, in steps."""

    @property
    @abstractmethod
    def observation_size(self) -> int:
        """Size of the policy's input: achieved goal, desired goal and observation."""

    @property
    @abstractmethod
    def action_size(self) -> int:
        """Dimensions of an action; of a discrete one, its components."""

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of choices of an action's discrete components; empty if it is continuous."""
        return ()

    @property
    def n_choices(self) -> int | None:
        """Number of discrete actions; None if an action is not a single choice."""
        return self.choices[0] if len(self.choices) == 1 else None

    @property
    def n_outputs(self) -> int:
        """Size of the policy's output: the number of all choices, or of action dimensions."""
        return sum(self.choices) or self.action_size

    @property
    def code(self) -> tuple[str, ...]:
        """Roots of the code that steps it, `module` or `module:name` (`fingerprint`)."""
        return (self.entry_point.partition(":")[0],)

    @property
    def own_code(self) -> str:
        """Digest of the source of a user's own environment; empty for any other."""
        return ""

    @property
    def words(self) -> str:
        """The environment's part of a cell's path."""
        return self.id.removesuffix("-v0")

    def with_parameters(self, given: dict[str, Any]) -> Self:
        """Copy with other parameters; raises SpecError for invalid ones."""
        return validated(type(self), self.model_dump() | self.by_field(given))

    def make(self, **options: Any) -> "gymnasium.Env[Any, Any]":
        """Make a single gymnasium environment; `options` are passed on, such as render_mode."""
        import gymnasium

        return gymnasium.make(self.id, **self.model_dump(exclude={"id"}), **options)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of an observation, in the order of the policy's input."""
        return GOAL_KEYS


class AlgorithmSpec(Spec):
    """Specification of a learning algorithm."""

    #: Module of the update in PyTorch.
    module: ClassVar[str]
    #: Module of the same update compiled for the CPU; empty if there is none.
    compiled_module: ClassVar[str] = ""
    #: `module:class` of the training loop.
    loop: ClassVar[str]
    #: On-policy algorithms use `hindsight`, off-policy algorithms use `replay`.
    on_policy: ClassVar[bool]
    #: Supported action spaces.
    actions: ClassVar[Actions] = "any"
    #: Whether the policy itself is stochastic; if not, the training loop adds exploration noise.
    stochastic: ClassVar[bool] = True
    #: Whether the authors also ended its runs by a test (`EndTestSpec`).
    ends_by_test: ClassVar[bool] = False
    #: Forward and backward passes in an update, relative to DDPG's ten.
    passes: ClassVar[float] = 1.0

    if TYPE_CHECKING:
        name: str = ""
    hidden: Widths = (64, 64)
    """Widths of the hidden layers, of every network. Usual: two layers of 64 to 512; wider learns
    harder tasks, at a higher cost."""
    learning_rate: Positive = 3e-4
    """Adam's step size. Usual: 1e-4 to 3e-3; larger learns faster until it becomes unstable."""
    n_envs: Count = 1
    """Environments that each run steps at the same time. Usual: 1 to 16."""
    batch_size: Count = 64
    """Transitions in a minibatch. Usual: 64 to 2048; larger is steadier and slower."""
    gamma: Fraction = 0.99
    """Discount of the next step's value. Usual: 0.9 to 0.99; its horizon is 1 / (1 - gamma) steps,
    and should cover the way to a goal."""
    weight_decay: NonNegative = 0.0
    """Added to the gradient, times the parameters (Adam's weight_decay, as in Stable-Baselines3).
    Usual: 0, or 1e-5 to 1e-3."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.actions not in (known := get_args(Actions)):
            raise SpecError(f"{cls.__name__}.actions: {cls.actions!r} is unknown; use {known}")
        if "module" in vars(cls) and "compiled_module" not in vars(cls):
            cls.compiled_module = ""  # an inherited one is the other module's update

    @property
    @abstractmethod
    def iteration_steps(self) -> int:
        """Environment steps of a run per row of its curves: one rollout for PPO."""

    @property
    def initialisation(self) -> tuple[float, ...]:
        """Settings, besides seed and network, that decide a run's initial parameters."""
        return ()

    @property
    def words(self) -> str:
        """The algorithm's part of a cell's path."""
        return self.name


Kind = TypeVar("Kind", bound=Spec)


def subclasses_by(
    package: str, path: Sequence[str], base: type[Kind], field: str
) -> dict[str, type[Kind]]:
    """The subclasses of `base` that a package's modules define, by the default of their `field`."""
    found = dict[str, type[Kind]]()
    for name in sorted(module.name for module in pkgutil.iter_modules(path)):
        module = importlib.import_module(f"{package}.{name}")
        for kind in vars(module).values():
            own = isinstance(kind, type) and kind.__module__ == module.__name__
            if own and issubclass(kind, base):
                who = f"{module.__name__}: {kind.__name__}"
                if field not in kind.model_fields:
                    raise SpecError(f"{who} needs a field {field!r}")
                own_name, allowed = kind.model_fields[field].default, kind.model_fields[field]
                if own_name not in (get_args(allowed.annotation) or (own_name,)):
                    raise SpecError(
                        f"{who} has the {field} {own_name!r}, which is not of its type; write "
                        f'{field}: Literal["this"] = "this"'
                    )
                if own_name in found:
                    raise SpecError(
                        f"{who} has the {field} {own_name!r}, which {found[own_name].__module__} "
                        "has: each needs one of its own"
                    )
                for implementation in ("module", "compiled_module", "loop"):
                    if implementation in base.__annotations__ and not hasattr(kind, implementation):
                        raise SpecError(
                            f"{who} needs a class variable {implementation!r}, which names its code"
                        )
                    named = getattr(kind, implementation, "").partition(":")[0]
                    if named and not _exists(named):
                        raise SpecError(
                            f"{who}.{implementation} is {named}, and there is no such module"
                        )
                found[own_name] = kind
    return found


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False
