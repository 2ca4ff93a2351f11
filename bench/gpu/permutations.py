"""The topic permutations: the cases of arrays that copy transposed arrays, alone."""

import arrays


def records() -> tuple[list[dict], list[str]]:
    faults: list[str] = []
    return arrays.beside_others(arrays.measured("^(permute|arbitrary)$"), {}, faults), faults
