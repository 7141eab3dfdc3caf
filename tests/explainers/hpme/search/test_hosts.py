"""How the other graph of a mixup is drawn."""

import torch

from hpme.explainers.hpme.method.mixer import HostSampler


def test_hosts():
    embedding = torch.nn.functional.one_hot(torch.arange(6) // 3).float()
    values = torch.arange(6.0).view(-1, 1)
    ids = torch.arange(6).repeat(50)
    for neighbor, same in (("near", True), ("far", False)):
        sampler = HostSampler(embedding, values, torch.Generator().manual_seed(0), neighbor)
        hit = (embedding[sampler(ids)] == embedding[ids]).all(1)
        assert (hit == same).float().mean() > 0.95
    drawn, contrast = (
        HostSampler(embedding, values, torch.Generator().manual_seed(0), neighbor)(ids)
        for neighbor in ("random", "contrast")
    )
    assert set(drawn.tolist()) == set(range(6))
    distance = (values[contrast] - values[ids]).abs().mean()
    assert distance > 1.3 * (values[drawn] - values[ids]).abs().mean()
