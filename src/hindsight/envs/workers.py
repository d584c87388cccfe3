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
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hindsight.envs.facts import LARGEST_REWARD
from hindsight.io.interruption import SIGNALS, awaited
from hindsight.specs.errors import EnvironmentFailure, others_code
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import action_of, row_of
from hindsight.streams import Purpose, stream


@dataclass(frozen=True)
class Slot:
    """The identity of an environment."""

    seed: int  # its run's
    env: int  # its index within the run

    def episode_seed(self, purpose: Purpose, episode: int) -> int:
        """The reset seed of an episode."""
        # Stream numbers of consecutive environments are 2**40 apart.
        return int(stream(self.seed, purpose, (self.env << 40) + episode).integers(2**31))


class Arrays:
    """The state of all environments in shared memory; one row per environment."""

    active: NDArray[np.bool_]  # [row], whether it is stepped
    obs: NDArray[np.float32]  # [row, obs], before the next action
    next_obs: NDArray[np.float32]  # [row, obs], after the last action
    outcome: NDArray[np.bool_]  # [row, 3], last step: terminated, truncated, success
    rest: NDArray[np.float32]  # [row], part of the last reward that goals do not explain
    episode: NDArray[np.int64]  # [row], number of the current episode
    elapsed: NDArray[np.int64]  # [row], its steps so far
    actions: NDArray[np.float32]  # [row, step, action], its actions in [-1, 1], or choices
    seconds: NDArray[np.float64]  # [worker], CPU time

    def __init__(self, spec: GymnasiumSpec, slots: int, workers: int) -> None:
        obs, action = spec.observation_size, spec.action_size
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
            "active": (np.bool_, (slots,)),
            "obs": (np.float32, (slots, obs)),
            "next_obs": (np.float32, (slots, obs)),
            "outcome": (np.bool_, (slots, 3)),
            "rest": (np.float32, (slots,)),
            "episode": (np.int64, (slots,)),
            "elapsed": (np.int64, (slots,)),
            "actions": (np.float32, (slots, spec.step_limit, action)),
            "seconds": (np.float64, (workers,)),
        }
        self._memory = {}
        for name, (kind, shape) in shapes.items():
            size = int(np.prod(shape)) * np.dtype(kind).itemsize
            # This memory has no name in the file system, so nothing remains if processes crash.
            self._memory[name] = multiprocessing.RawArray("b", size), kind, shape
        self._look()
        self.active[:] = True

    def _look(self) -> None:
        for name, (memory, kind, shape) in self._memory.items():
            setattr(self, name, np.frombuffer(memory, kind).reshape(shape))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle references to the shared memory, not copies, for spawned processes."""
        return self._memory

    def __setstate__(self, memory: dict[str, Any]) -> None:
        self._memory = memory
        self._look()


class Instances:
    """The environments of one worker."""

    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, arrays: Arrays,
        rows: Sequence[int],
    ) -> None:  # fmt: skip
        self.spec, self.slots, self.purpose = spec, slots, purpose
        self.arrays, self.rows = arrays, rows
        self._envs: dict[int, gym.Env[Any, Any]] = {}
        #: The current desired goals by row, in the environments' format.
        self._desired: dict[int, NDArray[Any]] = {}
        self.facts = spec.facts

    def restore(self) -> None:
        """Bring each environment to the state of its row, by replaying the episode's actions."""
        for row in self._active():
            doing = "making the environment for the start"
            try:
                if row not in self._envs:
                    self._envs[row] = self.spec.make()
                doing = "reset"
                self._begin(row)
                for t in range(int(self.arrays.elapsed[row])):
                    doing = f"replay of step {t + 1}"
                    obs, *_ = self._envs[row].step(
                        action_of(self.facts.action, self.arrays.actions[row, t])
                    )
                    self._write(self.arrays.obs[row], obs)
                    self._desired[row] = self.facts.goal_of(obs, "desired_goal")
            except Exception as error:
                raise self._failure(row, doing, error) from error

    def step(self) -> None:
        """Step each environment; if an episode is over, `obs` is the start of the next one."""
        for row in self._active():
            try:
                self._step(row)
            except EnvironmentFailure:
                raise
            except Exception as error:
                doing = f"step {int(self.arrays.elapsed[row]) + 1}"
                raise self._failure(row, doing, error) from error

    def _step(self, row: int) -> None:
        arrays, facts = self.arrays, self.facts
        action = action_of(facts.action, arrays.actions[row, arrays.elapsed[row]])
        obs, reward, terminated, truncated, info = self._envs[row].step(action)
        if not abs(float(reward)) <= LARGEST_REWARD:  # also true for NaN
            raise ValueError(
                f"the reward was {reward}; a reward must be a number within ±{LARGEST_REWARD:g}"
            )
        self._write(arrays.next_obs[row], obs)
        pursued, achieved = self._desired[row], facts.goal_of(obs, "achieved_goal")
        desired = self._desired[row] = facts.goal_of(obs, "desired_goal")
        success = facts.is_success(pursued, obs, info)
        if self.spec.terminates != "never":
            facts.check_ending(achieved, pursued, terminated, truncated, success)
        if self.spec.rest != "drop":
            rest = facts.rest_of(float(reward), achieved, (pursued, desired), info)
            if rest and self.spec.rest == "refuse":
                said = float(reward) - rest
                raise ValueError(
                    f"the reward was {reward:g}, but compute_reward returns {said:g}; with "
                    "rest=refuse they must agree"
                )
            arrays.rest[row] = rest
        arrays.outcome[row] = terminated, truncated and not terminated, success
        if terminated or truncated:
            arrays.episode[row] += 1
            arrays.elapsed[row] = 0
            self._begin(row)
        else:
            arrays.elapsed[row] += 1
            arrays.obs[row] = arrays.next_obs[row]

    def _active(self) -> list[int]:
        return [row for row in self.rows if self.arrays.active[row]]

    def _begin(self, row: int) -> None:
        """Reset to the start of the current episode."""
        seed = self.slots[row].episode_seed(self.purpose, int(self.arrays.episode[row]))
        obs, _ = self._envs[row].reset(seed=seed)
        self._write(self.arrays.obs[row], obs)
        self._desired[row] = self.facts.goal_of(obs, "desired_goal")

    def _write(self, row: NDArray[np.float32], obs: dict[str, Any]) -> None:
        """Write an observation into a row: achieved goal, desired goal, observation."""
        row[:] = row_of(obs, self.facts.spaces)
        if not np.isfinite(row).all():
            raise ValueError(f"an observation is not finite: {obs}")

    def _failure(self, row: int, doing: str, error: Exception) -> EnvironmentFailure:
        slot, episode = self.slots[row], int(self.arrays.episode[row])
        return EnvironmentFailure.of(
            f"{self.spec.called}: {doing} of episode {episode} failed (environment {slot.env} of "
            f"the run with seed {slot.seed})",
            error,
        )


class Pool:
    """All environments of all runs, in this process or in workers.

    Workers end with this process, however it ends, because their pipes are closed then.
    """

    def __init__(
        self, spec: GymnasiumSpec, slots: Sequence[Slot], purpose: Purpose, workers: int | None
    ) -> None:
        count = min(len(os.sched_getaffinity(0)) if workers is None else workers, len(slots))
        self.spec, self.arrays = spec, Arrays(spec, len(slots), max(count, 1))
        self._here: Instances | None = None
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        if count <= 1:
            self._here = Instances(spec, slots, purpose, self.arrays, range(len(slots)))
            return
        # A forked process knows the environments registered here; a spawned one imports modules.
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        for i in range(count):
            ours, theirs = context.Pipe()
            # Each run's environments are spread over workers, which balances the load if runs end.
            rows = range(i, len(slots), count)
            process = context.Process(
                target=_work,
                args=((spec, slots, purpose, self.arrays, rows), i, theirs, ours),
                name=f"{spec.id}-{i}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        self._finalizer = weakref.finalize(self, _end, self._connections, self._processes)

    @property
    def pids(self) -> list[int]:
        """Process IDs of the workers."""
        return [process.pid for process in self._processes if process.pid is not None]

    def cpu_seconds(self) -> float:
        """CPU seconds of the workers so far."""
        return float(self.arrays.seconds.sum())

    def close(self) -> None:
        """End the workers."""
        if self._processes:
            self._finalizer()

    def restore(self) -> None:
        """Bring each environment to the state of its row."""
        self._all("restore")

    def step(self) -> None:
        """Step each environment with the action at its row's `elapsed`."""
        self._all("step")

    def _all(self, what: str) -> None:
        if self._here is not None:
            with others_code(self.spec.called):
                getattr(self._here, what)()
            return
        try:
            with awaited(self.spec.called):
                for connection in self._connections:
                    connection.send(what)
                errors = [error for c in self._connections if (error := c.recv()) is not None]
        except KeyboardInterrupt:
            self.close()
            raise
        except (EOFError, OSError) as error:
            raise self._died() from error
        if errors:
            self.close()
            raise EnvironmentFailure(errors[0])

    def _died(self) -> EnvironmentFailure:
        """The error for a worker that died."""
        ready = wait([process.sentinel for process in self._processes], 1.0)
        for process in self._processes:
            if process.sentinel in ready:
                process.join(1.0)
        codes = [process.exitcode for process in self._processes]
        self.close()
        gone = [code for code in codes if code is not None]
        how = "closed its connection"
        if gone:
            how = f"was killed by signal {-gone[0]}" if gone[0] < 0 else f"ended with {gone[0]}"
        return EnvironmentFailure(
            f"{self.spec.called}: a process that steps it {how}; the last checkpoint is intact, "
            "and the same command continues from it"
        )


def _work(of: tuple[Any, ...], number: int, connection: Connection, other: Connection) -> None:
    """The main loop of a worker: execute commands until told to end."""
    instances = Instances(*of)
    other.close()
    for which in SIGNALS:  # the main process handles interrupts
        signal.signal(which, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        while (what := connection.recv()) != "end":
            answer = None
            try:
                with others_code(instances.spec.called):
                    getattr(instances, what)()
            except EnvironmentFailure as failure:
                answer = str(failure)
            instances.arrays.seconds[number] = time.process_time()
            connection.send(answer)
    except (EOFError, OSError):
        return


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
