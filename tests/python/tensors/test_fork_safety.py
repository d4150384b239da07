"""A child of fork steps, whatever a thread of its parent was doing when it was made."""

import os
import signal
import threading
import time

import pytest
import torch
import twins

import altgrad

pytestmark = pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a child of fork has no driver")


def in_child(work, seconds=300):
    """Whether `work` ends well in a child of fork; kills one that waits for ever."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.parametrize("make", [lambda ps: altgrad.optim.AdamW(ps), lambda ps: altgrad.optim.SGD(ps, momentum=0.9)])
def test_while_another_thread_steps(make):
    params, = twins.make([(1 << 18,)] * 4, count=1)
    optimizer, stop = make(params), threading.Event()
    twins.give_grads(params)
    optimizer.step()

    def steps():
        while not stop.is_set():
            optimizer.step()
    thread = threading.Thread(target=steps)
    thread.start()

    def work():
        before = params[0].detach().clone()
        for _ in range(2):
            optimizer.step()
        assert not torch.equal(before, params[0])
    try:
        assert all([in_child(work) for _ in range(4)])
    finally:
        stop.set()
        thread.join()
    optimizer.step()


def test_a_thread_that_forks_within_its_own_step_goes_on():
    params, = twins.make([(5,)], count=1)
    optimizer = altgrad.optim.AdamW(params)
    twins.give_grads(params)
    answers, others = [], twins.make([(5,)], count=1)[0]
    twins.give_grads(others)
    other = altgrad.optim.AdamW(others)

    def forks(*_):
        answers.append(in_child(lambda: (optimizer.zero_grad(), other.step())))
    with optimizer._lock:
        forks()
    handle = optimizer.register_step_pre_hook(forks)
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert answers == [True, True]
