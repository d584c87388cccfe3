"""Requests to stop: once, twice at once, and again later."""

import signal
import time

import pytest

from hindsight.io.interruption import ECHO_SECONDS, noticed


def test_two_signals_at_once_are_one_request():
    with noticed() as notice:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert notice.signal == signal.SIGTERM


def test_a_later_second_signal_interrupts():
    with pytest.raises(KeyboardInterrupt), noticed():
        signal.raise_signal(signal.SIGTERM)
        time.sleep(ECHO_SECONDS + 0.1)
        signal.raise_signal(signal.SIGTERM)
