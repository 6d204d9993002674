"""The lanes shape on the CPU: every lane is a thread of the operating system, shuffles are a barrier."""

from __future__ import annotations

import ctypes
import threading

import numpy as np

from surefoot.compiler import Target
from surefoot.compute.warp.launch import Launch
from surefoot.engines import RobotState
from surefoot.engines.stride import StrideEngine


class EmulatedLanes(StrideEngine):
    def _hot(self, heightfield: bool) -> bool:
        return not heightfield

    def _step_source(self, policy: np.ndarray, target: Target) -> str:
        # The address of sched_yield: what Warp compiles for the CPU cannot name functions of the C library.
        address = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value
        return super()._step_source(policy, Target("lanes", emulated=f"((long (*)())0x{address:x}ull)()"))

    def _record(self, threads: int) -> None:
        super()._record(1)
        lanes = 1 << (self.layout.chains - 1).bit_length()
        arrays = self.arrays.of_a_step()
        self.step_launches = [
            [
                Launch(self._step_kernel, self.padded, [lane << 20, look, *arrays], self.device)
                for lane in range(lanes)
            ]
            for look in (0, 1)
        ]

    def _step(self) -> RobotState:
        self._launch(self.step_launches[0])
        return self.state()

    def _launch(self, commands: list[Launch]) -> None:
        threads = [threading.Thread(target=c) for c in commands]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
