"""Gymnasium environments in worker processes with shared-memory arrays.

Each worker steps several environments in turn.  A message to it and back costs a hundredth of a
robot arm's step, however many environments it steps.  Does not import torch.

Checkpoints work without access to an environment's internals: its state follows from its seed, the
episode number and the actions so far, so it is restored by replaying these actions.  This requires
a deterministic environment.
"""

import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hindsight.envs.facts import LARGEST_REWARD, Constancy, finite_row
from hindsight.io.interruption import SIGNALS, awaited
from hindsight.specs.errors import EnvironmentFailure, others_code
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import action_of
from hindsight.streams import Purpose, stream

#: An environment: its run's seed, and its index within the run.
Slot = tuple[int, int]


def episode_seed(slot: Slot, purpose: Purpose, episode: int) -> int:
    """The reset seed of an episode."""
    seed, env = slot
    # Stream numbers of consecutive environments are 2**40 apart.
    return int(stream(seed, purpose, (env << 40) + episode).integers(2**31))


def row_type(spec: GymnasiumSpec) -> np.dtype[Any]:
    """The state of one environment: a row of the array that all processes share."""
    fields: list[Any] = [
        ("episode", np.int64),  # number of the current episode
        ("elapsed", np.int64),  # its steps so far
        ("actions", np.float32, (spec.step_limit, spec.action_size)),  # its actions, or choices
        ("obs", np.float32, (spec.observation_size,)),  # before the next action
        ("next_obs", np.float32, (spec.observation_size,)),  # after the last action
        ("rest", np.float32),  # part of the last reward that goals do not explain
        ("beyond", np.float32),  # what it is beyond the reward of the goal pursued
        ("outcome", np.bool_, (3,)),  # last step: terminated, truncated, success
        ("active", np.bool_),  # whether it is stepped
    ]
    return np.dtype(fields, align=True)


class Instances:
    """The environments of one worker."""

    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, memory: Any,
        numbers: Sequence[int],
    ) -> None:  # fmt: skip
        """`memory` holds the rows of all environments; those with these `numbers` are ours."""
        self.spec, self.slots, self.purpose, self.numbers = spec, slots, purpose, numbers
        self.rows = np.frombuffer(memory, row_type(spec))
        self._envs: dict[int, gym.Env[Any, Any]] = {}
        self._watches: dict[int, Constancy] = {}
        #: The current desired goals by number, in the environments' format.
        self._desired: dict[int, NDArray[Any]] = {}
        self.facts = spec.facts
        #: What is being done, for messages.
        self._doing = ""

    def do(self, what: Literal["restore", "step"]) -> None:
        """Restore or step each active environment.

        Raises EnvironmentFailure, which says where and when, if an environment fails.
        """
        for i in self.numbers:
            if not self.rows[i]["active"]:
                continue
            try:
                getattr(self, f"_{what}")(i)
            except EnvironmentFailure:
                raise
            except Exception as error:
                (seed, env), episode = self.slots[i], int(self.rows[i]["episode"])
                raise EnvironmentFailure.of(
                    f"{self.spec.called}: {self._doing} of episode {episode} failed (environment "
                    f"{env} of the run with seed {seed})",
                    error,
                ) from error

    def _restore(self, i: int) -> None:
        """Bring an environment to the state of its row, by replaying the episode's actions."""
        if i not in self._envs:
            self._doing = "making the environment for the start"
            self._envs[i] = self.spec.make()
            self._watches[i] = self.facts.watch(self._envs[i])
        self._begin(i)
        for t in range(int(self.rows[i]["elapsed"])):
            self._doing = f"replay of step {t + 1}"
            action = action_of(self.facts.action, self.rows[i]["actions"][t])
            self._observe(i, "obs", self._envs[i].step(action)[0])

    def _step(self, i: int) -> None:
        """Step an environment; if its episode is over, `obs` is the start of the next one."""
        self._doing = f"step {int(self.rows[i]['elapsed']) + 1}"
        row, facts, pursued = self.rows[i], self.facts, self._desired[i]
        action = action_of(facts.action, row["actions"][row["elapsed"]])
        obs, reward, terminated, truncated, info = self._envs[i].step(action)
        if not abs(float(reward)) <= LARGEST_REWARD:  # also true for NaN
            raise ValueError(
                f"the reward was {reward}; a reward must be a number within ±{LARGEST_REWARD:g}"
            )
        self._observe(i, "next_obs", obs)
        achieved = facts.goal_of(obs, "achieved_goal")
        success = facts.is_success(pursued, obs, info)
        self._watches[i].check(achieved, pursued, info)
        goals = pursued, self._desired[i]  # before and after the step, which may move the goal
        if self.spec.terminates != "never":
            facts.check_ending(achieved, goals, terminated, truncated, success)
        rest = moved = 0.0
        if self.spec.rest != "drop" or not np.array_equal(*goals):
            rest, moved = facts.beyond(float(reward), achieved, goals)
            if rest and self.spec.rest == "refuse":
                said = float(reward) - rest
                raise ValueError(
                    f"the reward was {reward:g}, but compute_reward returns {said:g}; with "
                    "rest=refuse they must agree"
                )
        row["rest"], row["beyond"] = rest, moved + (rest if self.spec.rest == "keep" else 0.0)
        row["outcome"] = terminated, truncated and not terminated, success
        if terminated or truncated:
            row["episode"] += 1
            row["elapsed"] = 0
            self._begin(i)
        else:
            row["elapsed"] += 1
            row["obs"] = row["next_obs"]

    def close(self) -> None:
        """Close the environments; their own errors no longer matter."""
        while self._envs:
            with suppress(Exception):
                self._envs.popitem()[1].close()

    def _begin(self, i: int) -> None:
        """Reset to the start of the current episode."""
        self._doing = "reset"
        seed = episode_seed(self.slots[i], self.purpose, int(self.rows[i]["episode"]))
        self._watches[i].begin()
        self._observe(i, "obs", self._envs[i].reset(seed=seed)[0])

    def _observe(self, i: int, field: str, obs: dict[str, Any]) -> None:
        """Write an observation into a field: achieved goal, desired goal, observation."""
        self.rows[i][field] = finite_row(obs, self.facts.spaces)
        self._desired[i] = self.facts.goal_of(obs, "desired_goal")


class Pool:
    """All environments of all runs, in this process or in workers.

    Workers end with this process, however it ends, because each of them watches it.
    """

    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, workers: int | None
    ) -> None:
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
        if count <= 1:
            self._here = Instances(spec, slots, purpose, memory, range(len(slots)))
            #: Ends the workers; called at the latest when this object is deleted.
            self.close: Any = weakref.finalize(self, self._here.close)
            return
        # A forked process knows the environments registered here.
        context = multiprocessing.get_context("fork")
        for i in range(count):
            ours, theirs = context.Pipe()
            # Each run's environments are spread over workers, which balances the load if runs end.
            numbers = range(i, len(slots), count)
            process = context.Process(
                target=_work,
                args=((spec, slots, purpose, memory, numbers), theirs, os.getpid()),
                name=f"{spec.id}-{i}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        self.close = weakref.finalize(self, _end, self._connections, self._processes)

    def do(self, what: Literal["restore", "step"]) -> None:
        """Restore or step all environments; see `Instances.do`."""
        if self._here is not None:
            with others_code(self.spec.called):
                self._here.do(what)
            return
        try:
            with awaited(self.spec.called):
                for connection in self._connections:
                    connection.send(what)
                answers = [connection.recv() for connection in self._connections]
        except KeyboardInterrupt:
            self.close()
            raise
        except (EOFError, OSError) as error:
            raise self._died() from error
        failures, self.seconds = zip(*answers, strict=True)
        if any(failures):
            self.close()
            raise EnvironmentFailure(next(filter(None, failures)))

    def _died(self) -> EnvironmentFailure:
        """The error for a worker that died."""
        ended, how = wait([p.sentinel for p in self._processes], 1.0), "closed its connection"
        for process in self._processes:
            if process.sentinel in ended:
                process.join(1.0)
                code = process.exitcode or 0
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        self.close()
        return EnvironmentFailure(
            f"{self.spec.called}: a process that steps it {how}; the last checkpoint is intact, "
            "and the same command continues from it"
        )


def _work(of: tuple[Any, ...], connection: Connection, parent: int) -> None:
    """The main loop of a worker: execute commands until told to end."""
    instances = Instances(*of)
    for which in SIGNALS:  # the main process handles interrupts
        signal.signal(which, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while (what := connection.recv()) != "end":
        failure = ""
        try:
            with others_code(instances.spec.called):
                instances.do(what)
        except EnvironmentFailure as error:
            failure = str(error)
        connection.send((failure, time.process_time()))
    instances.close()


def _end_with(parent: int) -> None:
    """End this worker when its parent process ends, even during a step that hangs."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _end(connections: list[Connection], processes: list[BaseProcess]) -> None:
    """Ask the workers to end; kill those that do not."""
    for connection in connections:
        with suppress(OSError):
            connection.send("end")
        connection.close()
    for process in processes:
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
