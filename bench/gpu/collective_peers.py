"""Measures PyTorch's collectives between two GPUs, as the task bench of
ndview/collective's tests does. Run once per rank, with RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. Rank 0 prints a line of JSON per operation and size.
"""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist


def operations(rank: int, whole: torch.Tensor, other: torch.Tensor, part: torch.Tensor) -> dict:
    def exchange() -> None:
        requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)])
        for r in requests:
            r.wait()

    return {
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send-recv": exchange,
    }


def main() -> None:
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    size = 1 << 10
    while size <= 1 << 30:
        whole, other, part = (torch.zeros(n // 4, device="cuda") for n in (size, size, size // 2))
        iterations = max(10, min(200, (4 << 30) // size // 16))
        for name, run in operations(rank, whole, other, part).items():
            for _ in range(10):
                run()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(iterations):
                run()
            torch.cuda.synchronize()
            stream = (time.perf_counter() - start) / iterations
            times = []
            for _ in range(min(iterations, 100)):
                start = time.perf_counter()
                run()
                torch.cuda.current_stream().synchronize()
                times.append(time.perf_counter() - start)
            if rank == 0:
                print(json.dumps({"Name": name, "Bytes": size, "Stream": stream, "Latency": statistics.median(times)}), flush=True)
        size *= 4
    dist.destroy_process_group()


main()
