"""A worker of torchrun that goes on from the last checkpoint: restarted.py FOLDER [alone]. In the first world rank 1 dies,
alone, or with the agent that would start it again, so that those that are left are a smaller world."""

import datetime
import json
import os
import pathlib
import signal
import sys

import killed
import torch
import torch.distributed as dist


def main(folder, alone):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=killed.CALM))
    rank, world = dist.get_rank(), dist.get_world_size()
    first = killed.last_of(folder) + 1

    def die(point, step):
        if (first, rank, point, step) == (0, 1, "updated", 3):
            if not alone:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    numbers = killed.train(folder, die)
    (folder / f"{rank}.json").write_text(json.dumps([first, world, numbers]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), "alone" in sys.argv)
