"""Gymnasium environments in worker processes with shared-memory arrays.

Each worker steps several environments in turn.  A message to it and back costs a hundredth of a
robot arm's step, however many environments it steps.  Does not import torch.

Checkpoints work without access to an environment's internals: its state follows from its seed, the
episode number and the actions so far, so it is restored by replaying these actions.  An environment
that is then elsewhere begins its next episode instead.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hindsight.envs.environment import Call
from hindsight.envs.gymnasium.facts import GoalFacts, finite_row
from hindsight.envs.gymnasium.goal_functions import LARGEST_REWARD, Constancy
from hindsight.envs.gymnasium.trial import success_in
from hindsight.io.interruption import SIGNALS, awaited
from hindsight.specs.errors import EnvironmentFailure, others_code
from hindsight.specs.gymnasium import GymnasiumSpec, TheOnlyOne
from hindsight.specs.spaces import action_of
from hindsight.streams import Purpose, stream

#: An environment: its run's seed, and its index within the run.
Slot = tuple[int, int]
#: What is said of an end that has nothing to do with the goal, and counts as a success.
ENDS_ANYWAY = (
    "compute_terminated ended an episode that it would have ended under other goals, too (a "
    "fall?); it counts as a success, because info has no is_success: write is_success into info"
)
#: Ends at goals that are looked at, because functions of goals may be slow.
MOST_ENDS = 20
#: An episode can be replayed up to this length.
LONGEST_REPLAY = 10_000


def episode_seed(slot: Slot, purpose: Purpose, episode: int) -> int:
    seed, env = slot
    # Stream numbers of consecutive environments are 2**40 apart.
    return int(stream(seed, purpose, (env << 40) + episode).integers(2**31))


def row_type(spec: GymnasiumSpec) -> np.dtype[Any]:
    """The state of one environment: a row of the array that all processes share."""
    fields: list[Any] = [
        ("episode", np.int64),  # number of the current episode
        ("elapsed", np.int64),  # its steps so far
        # its actions, or choices; of a very long episode, the last place has the latest
        ("actions", np.float32, (min(spec.step_limit, LONGEST_REPLAY), spec.action_size)),
        ("obs", np.float32, (spec.observation_size,)),  # before the next action
        ("next_obs", np.float32, (spec.observation_size,)),  # after the last action
        ("reward", np.float32),  # of the last action, without the rest if that is dropped
        ("rest", np.float32),  # its part that goals do not explain
        ("outcome", np.bool_, (3,)),  # last step: terminated, truncated, success
        ("active", np.bool_),  # whether it is stepped
    ]
    return np.dtype(fields, align=True)


class Instances:
    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, memory: Any,
        calls: Sequence[Call], facts: GoalFacts, numbers: Sequence[int], in_worker: bool = False,
    ) -> None:  # fmt: skip
        """`memory` holds the rows of all environments; those with these `numbers` are ours.

        `calls` are methods to call in every new environment.
        """
        self.in_worker = in_worker
        self.spec, self.slots, self.purpose, self.numbers = spec, slots, purpose, numbers
        self.calls = calls
        self.rows = np.frombuffer(memory, row_type(spec))
        self._envs: dict[int, gym.Env[Any, Any]] = {}
        self._watches: dict[int, Constancy] = {}
        #: The current desired goals by number, in the environments' format.
        self._desired: dict[int, NDArray[Any]] = {}
        self.facts = facts
        #: The latest goals, desired and achieved.
        self._goals: deque[NDArray[Any]] = deque(maxlen=32)
        #: Ends at a goal that are still to be compared with these, until one is told of.
        self._untold = 0 if purpose is Purpose.EVALUATION_SPAWN else MOST_ENDS
        #: What is being done, for messages.
        self._doing = ""

    def do(self, what: str, *arguments: Any) -> dict[int, Any]:
        """Execute a command for each active environment; returns the results by its number.

        Raises EnvironmentFailure, which says where and when, if an environment fails.
        """
        found = {}
        for i in self.numbers:
            if not self.rows[i]["active"]:
                continue
            try:
                found[i] = getattr(self, f"_{what}")(i, *arguments)
            except EnvironmentFailure:
                raise
            except (Exception, GeneratorExit) as error:
                (seed, env), episode = self.slots[i], int(self.rows[i]["episode"])
                tests = "an evaluation of " if self.purpose is Purpose.EVALUATION_SPAWN else ""
                raise EnvironmentFailure.of(
                    f"{self.spec.called}: {self._doing} of episode {episode} failed (environment "
                    f"{env} of {tests}the run with seed {seed})",
                    error,
                ) from error
        if what == "call" and self.in_worker:  # this process's instance, which is asked for rewards
            name, values, options = arguments
            self.facts.instance.get_wrapper_attr(name)(*values, **options)
        return found

    def ask(self, facts: GoalFacts) -> None:
        """Ask another instance about goals from now on."""
        self.facts = facts
        self._watches = {i: facts.watch(env) for i, env in self._envs.items()}

    def _restore(self, i: int) -> None:
        """Replay the episode of a row; if its actions lead elsewhere, the next one begins."""
        row = self.rows[i]
        if i not in self._envs:
            self._doing = "making the environment for the start"
            self._envs[i] = env = self.spec.make()
            if isinstance(env, TheOnlyOne) and len(self.slots) > 1:
                raise ValueError(f"{env.why}, so it trains one run: set seeds and n_envs to 1")
            self._watches[i] = self.facts.watch(env)
            if self.calls and not isinstance(env, TheOnlyOne):  # in which they have been called
                env.reset(seed=0)  # a method may need it
                for call in self.calls:
                    self._call(i, *call)
        there, elapsed = row["obs"].copy(), int(row["elapsed"])
        self._begin(i)
        if elapsed and not (self._replayed(i, elapsed) and np.array_equal(row["obs"], there)):
            self._begin_next(i)

    def _replayed(self, i: int, steps: int) -> bool:
        """Replay the first steps of an episode; returns whether it goes on after them."""
        actions = self.rows[i]["actions"]
        if steps > len(actions):
            return False
        with suppress(Exception):  # not of the state that it is in
            for values in actions[:steps]:
                obs, _, *over, _ = self._envs[i].step(action_of(self.facts.action, values))
                self._observe(i, "obs", obs)
                if any(over):
                    return False
            return True
        return False

    def _step(self, i: int) -> None:
        """Step an environment; if its episode is over, `obs` is the start of the next one."""
        self._doing = f"step {int(self.rows[i]['elapsed']) + 1}"
        row, facts, pursued = self.rows[i], self.facts, self._desired[i]
        action = action_of(facts.action, row["actions"][place_of(row)])
        obs, reward, terminated, truncated, info = self._envs[i].step(action)
        if not abs(float(reward)) <= LARGEST_REWARD:  # also true for NaN
            raise ValueError(
                f"the reward was {reward}; a reward must be a number within ±{LARGEST_REWARD:g}"
            )
        self._observe(i, "next_obs", obs)
        achieved = facts.goal_of(obs, "achieved_goal")
        success = facts.is_success(pursued, obs, info)
        if terminated and success and success_in(info) is None and self._untold:
            self._untold -= 1
            if facts.ends_anyway(achieved, pursued, self._goals):
                print(f"{self.spec.called}: {ENDS_ANYWAY}", file=sys.stderr, flush=True)
                self._untold = 0
        self._goals.append(achieved)
        expected = self._watches[i].check(achieved, pursued, info)
        goals = pursued, self._desired[i]  # before and after the step, which may move the goal
        if self.spec.terminates != "never":
            facts.check_ending(achieved, goals, terminated, truncated, success)
        rest = facts.rewards.beyond(float(reward), float(expected[0]), achieved, goals)
        if rest and self.spec.rest == "refuse":
            said = float(reward) - rest
            raise ValueError(
                f"the reward was {reward:g}, but compute_reward returns {said:g}; with "
                "rest=refuse they must agree"
            )
        row["rest"] = rest
        row["reward"] = float(reward) - (rest if self.spec.rest == "drop" else 0.0)
        row["outcome"] = terminated, truncated and not terminated, success
        if terminated or truncated:
            self._begin_next(i)
        else:
            row["elapsed"] += 1
            row["obs"] = row["next_obs"]

    def _call(self, i: int, name: str, arguments: Sequence[Any], options: Any) -> Any:
        """Call a method of an environment, after which it may judge goals in another way."""
        self._doing = f"{name}()"
        self._watches[i].forget()
        return self._envs[i].get_wrapper_attr(name)(*arguments, **options)

    @property
    def only(self) -> TheOnlyOne | None:
        """The only instance of the environment, if no other can be made."""
        return next((env for env in self._envs.values() if isinstance(env, TheOnlyOne)), None)

    def close(self) -> None:
        """Close the environments; their own errors no longer matter."""
        while self._envs:
            with suppress(Exception):
                self._envs.popitem()[1].close()

    def _begin_next(self, i: int) -> None:
        self.rows[i]["episode"] += 1
        self.rows[i]["elapsed"] = 0
        self._begin(i)

    def _begin(self, i: int) -> None:
        self._doing = "reset"
        seed = episode_seed(self.slots[i], self.purpose, int(self.rows[i]["episode"]))
        self._watches[i].begin()
        self._observe(i, "obs", self._envs[i].reset(seed=seed)[0])
        self._goals.append(self._desired[i])

    def _observe(self, i: int, field: str, obs: dict[str, Any]) -> None:
        """Write an observation into a field: achieved goal, desired goal, observation."""
        self.rows[i][field] = finite_row(obs, self.facts.spaces)
        self._desired[i] = self.facts.goal_of(obs, "desired_goal")


def place_of(rows: Any) -> Any:
    """Where the next action of each row is stored among its actions."""
    return np.minimum(rows["elapsed"], rows["actions"].shape[-2] - 1)


class Pool:
    """All environments of all runs, in this process or in workers.

    Workers end with this process, however it ends, because each of them watches it.
    """

    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, workers: int | None,
        calls: Sequence[Call], facts: GoalFacts,
    ) -> None:  # fmt: skip
        """`facts`: of the instance that is asked about goals."""
        count = min(len(os.sched_getaffinity(0)) if workers is None else workers, len(slots))
        if multiprocessing.current_process().daemon:  # which may start no processes
            count = 0
        # This memory has no name in the file system, so nothing remains if processes crash.
        memory = multiprocessing.RawArray("b", len(slots) * row_type(spec).itemsize)
        self.spec, self.rows = spec, np.frombuffer(memory, row_type(spec))
        self.rows["active"] = True
        #: CPU seconds of each worker so far.
        self.seconds: Sequence[float] = [0.0] * count
        self._here: Instances | None = None
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        common = spec, slots, purpose, memory, calls, facts
        if count <= 1:
            self._here = Instances(*common, range(len(slots)))
        # A forked process knows the environments registered here.
        context = multiprocessing.get_context("fork")
        for i in range(count if count > 1 else 0):
            ours, theirs = context.Pipe()
            # Each run's environments are spread over workers, which balances the load if runs end.
            numbers = range(i, len(slots), count)
            process = context.Process(
                target=_work,
                args=((*common, numbers, True), theirs, os.getpid()),
                name=f"{spec.id}-{i}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        #: Ends the workers; called at the latest when this object is deleted.
        self.close: Any = weakref.finalize(
            self, _end, self._here, self._connections, self._processes
        )
        _pools.add(self)

    def ask(self, facts: GoalFacts) -> None:
        """Ask another instance about goals, where environments are stepped in this process."""
        if self._here is not None:
            self._here.ask(facts)

    @property
    def only(self) -> TheOnlyOne | None:
        return None if self._here is None else self._here.only

    @property
    def goes_on(self) -> bool:
        """Whether the environments are in the state that their rows say.

        They are not after an error, in a fork of this process, or if others used the only instance.
        """
        taken = self.only is not None and self.only.is_taken
        return self.close.alive and not taken

    def do(self, what: str, *arguments: Any) -> dict[int, Any]:
        """Execute a command for all environments, see `Instances.do`; an error ends the pool."""
        message = b"" if self._here is not None else cloudpickle.dumps((what, *arguments))
        try:
            if self._here is not None:
                with others_code(self.spec.called):
                    return self._here.do(what, *arguments)
            with awaited(self.spec.called):
                for connection in self._connections:
                    connection.send_bytes(message)
                answers = [connection.recv() for connection in self._connections]
        except (EOFError, ConnectionError) as error:
            raise self._died() from error
        except BaseException:
            self.close()
            raise
        failures, self.seconds, found = zip(*answers, strict=True)
        if any(failures):
            self.close()
            raise EnvironmentFailure(next(filter(None, failures)))
        return {number: result for each in found for number, result in each.items()}

    def _died(self) -> EnvironmentFailure:
        ended, how = wait([p.sentinel for p in self._processes], 1.0), "closed its connection"
        for process in self._processes:
            if process.sentinel in ended:
                process.join(1.0)
                code = process.exitcode or 0
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        self.close()
        return EnvironmentFailure(f"{self.spec.called}: a process that steps it {how}")


def _work(of: tuple[Any, ...], connection: Connection, parent: int) -> None:
    """The main loop of a worker: execute commands until told to end."""
    instances = Instances(*of)
    # An environment that draws from it would draw the same in every worker.
    slot, episode = instances.slots[instances.numbers[0]], 0
    np.random.seed(episode_seed(slot, instances.purpose, episode) % 2**32)  # noqa: NPY002
    for which in SIGNALS:  # the main process handles interrupts
        signal.signal(which, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while (command := connection.recv()) != "end":
        failure, found = "", {}
        try:
            with others_code(instances.spec.called):
                found = instances.do(*command)
                ForkingPickler.dumps(found)
        except EnvironmentFailure as error:
            failure = str(error)
        except Exception as error:
            failure = (
                f"{instances.spec.called}: its answer cannot be sent to another process: {error}"
            )
        connection.send((failure, time.process_time(), found if not failure else {}))
    instances.close()


def _end_with(parent: int) -> None:
    """End this worker when its parent process ends, even during a step that hangs."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)


#: The pools of this process.
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """In a fork of this process, never end its workers, nor close its environments."""
    for pool in _pools:
        pool.close.detach()
        # At its exit, a process terminates and joins all of these.
        multiprocessing.process._children.difference_update(pool._processes)  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_leave_to_the_parent)


def _end(
    here: Instances | None,
    connections: list[Connection],
    processes: list[BaseProcess],
) -> None:
    """Close the environments here, or ask the workers to end and kill those that do not."""
    if here is not None:
        here.close()
    for connection in connections:
        with suppress(OSError):
            connection.send("end")
        connection.close()
    for process in processes:
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
