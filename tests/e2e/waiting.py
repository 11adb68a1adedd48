"""Waiting for what no event tells of: a file that a program makes, a process that is gone."""
import os
import time

LIMIT = 60  # seconds; a bound for what hangs, nothing that a test measures


def until(true, what, limit=LIMIT, process=None):
    """Asks until it is true. Fails when that takes too long, or when the process that is to bring it about has ended."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, f'{what}: not within {limit} s'
        assert process is None or process.poll() is None, f'{what}: the process ended before with {process.returncode}'
        time.sleep(0.02)


def until_there(path, process=None, limit=LIMIT):
    until(lambda: os.path.exists(path), f'{path} is there', limit, process)
