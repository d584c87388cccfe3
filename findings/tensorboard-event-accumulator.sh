#!/bin/sh
# tensorboard 2.21.0.
#
# EventAccumulator, with which programs read curves back from event files, returns 10,000 points of a curve at most: of
# 30,000 it keeps a random third, the same each time, from the whole length of the training.  Nothing is said.  With
# size_guidance={"scalars": 0} it keeps all.
#
# It matters to statistics of a point: a run's maximum, and the first step at which a return is reached, are missed two
# times in three.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile tensorboard==2.21.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END_OF_PYTHON'
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("curves")
for step in range(30_000):
    value = Summary.Value(tag="return", simple_value=float(step % 100 == 7))
    writer.add_event(Event(step=step, summary=Summary(value=[value])))
writer.close()


def read(**options):
    events = EventAccumulator("curves", **options)
    events.Reload()
    return events.Scalars("return")


some, all_of_them = read(), read(size_guidance={"scalars": 0})
ones = [event.step for event in all_of_them if event.value == 1][:5]
seen = [event.step for event in some if event.value == 1][:5]
print(f"{len(all_of_them)} points were written, {len(some)} are read, of which the last at step {some[-1].step}")
print(f"first steps with the return 1: {ones}; read: {seen}")
assert (len(all_of_them), len(some)) == (30_000, 10_000)
assert [event.step for event in read()] == [event.step for event in some] and seen != ones
END_OF_PYTHON
