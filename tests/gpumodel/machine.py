"""The GPUs that the model assumes. Their figures are in machines.json and nowhere else, for measurements to correct.

`copy_tb_s` is what a large copy reaches, reads and writes together. `first_launch_us` lies between the event before a step
and its first block, `launch_us` between two launches. `sweep_us` is what a pass over the elements takes longer than its
instructions let expect, `streams` the share of the copy rate that a step's streams reach: both were fitted to an H100's
curve. The H100's other figures are what `tools/device_check.sh run --only facts,curve` measured there, with launches that
overlap; those of other cards, and latencies of a loaded machine, are assumptions. Throughputs are those of the CUDA C++
Programming Guide's table of arithmetic instructions, as cycles between two warp instructions of a scheduler: 128 (8.0: 64)
FMAs, 64 integer operations and 16 special functions per processor and cycle.

Of products: `mma` is the interval of mma.m16n8k16 with f32 sums, whose 2048 FMAs are those of 8 cycles on 8.0. On 9.0 they
are of 4, and mma reaches 62.9 % of that rate (Luo et al., arXiv:2402.13499). `l2_bytes_cycle` is what SMs read of the L2 cache
together: of the A100's 5120 (NVIDIA's whitepaper) 76 %, as was measured of the V100's 2048 (Jia et al., arXiv:1804.06826);
for the H100, of which 5.5 to 7 TB/s are reported, it is an assumption."""

import json
import os

WARP, BLOCK_WARPS, SCHEDULERS = 32, 8, 4
SHARE = 12  # a simulation has about so many processors, and their part of the bandwidth


class Machine:
    def __init__(self, figures):
        self.__dict__.update(figures)

    def seconds(self, cycles):
        return cycles / (self.clock_ghz * 1e9)

    def bytes_per_cycle(self):
        return self.copy_tb_s * 1e3 / self.clock_ghz

    def instructions_per_byte(self):
        """What the schedulers can issue while a byte of each lane is copied."""
        return self.processors * SCHEDULERS * WARP / self.bytes_per_cycle()

    def resident_blocks(self, registers, shared):
        """Blocks of 256 threads that fit on a processor: registers are given out in eights, to warps."""
        for_warp = WARP * ((registers + 7) // 8 * 8)
        warps = self.registers // for_warp
        blocks = min(warps // BLOCK_WARPS, self.warps // BLOCK_WARPS, self.blocks)
        return min(blocks, self.shared_bytes // (shared + 1024)) if shared else blocks

    def part(self):
        """The processors of a simulation, and how many such parts the machine is."""
        processors = next(p for p in range(SHARE, 0, -1) if self.processors % p == 0)
        return processors, self.processors // processors

    def words(self, blocks, part=None, bandwidth=None):
        """As the simulator reads it; of a part (processors, how many such parts there are), and with another bandwidth than
        the memory's."""
        processors, parts = part or self.part()
        values = [processors, blocks, (bandwidth or self.bytes_per_cycle()) / parts, self.fill_bytes_cycle,
                  self.l2_bytes_cycle / parts, self.memory_cycles,
                  self.cache_cycles, self.block_start_cycles, self.jump_cycles, self.multi_cycles, self.shared_cycles,
                  self.load_queue, *self.intervals.values()]
        return " ".join(map(str, values))


def machines(path=os.path.join(os.path.dirname(__file__), "machines.json")):
    """Machines by name: H200, H100, A100."""
    with open(path) as file:
        return {name: Machine(figures) for name, figures in json.load(file).items()}


def strictest(known):
    """For each target the machine with the quickest memory, behind which the least arithmetic can hide."""
    return {m.target: m for m in sorted(known.values(), key=lambda m: m.copy_tb_s)}
