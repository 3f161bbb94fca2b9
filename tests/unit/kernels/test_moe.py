"""Mixture-of-experts helpers on npu: tokens to their experts and back, with gradients, against float64."""

import pytest
import torch
import torch_npu

TOKENS, EXPERTS, K, HIDDEN = 7, 4, 2, 6
TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def routes():
    return torch.stack([torch.randperm(EXPERTS)[:K] for _ in range(TOKENS)])


def close(got, want, tolerance):
    torch.testing.assert_close(
        got.detach().cpu().double(), want.detach().double(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_permute_and_unpermute_round_trip(dtype):
    torch.manual_seed(0)
    tokens, chosen = torch.randn(TOKENS, HIDDEN).to(dtype), routes()
    device = tokens.npu().requires_grad_()
    permuted, places = torch_npu.npu_moe_token_permute(device, chosen.int().npu())
    order = torch.argsort(chosen.flatten(), stable=True)
    close(permuted, tokens[order // K], 0)
    assert torch.equal(places.cpu().long(), torch.argsort(order))

    probs = torch.rand(TOKENS, K).to(dtype)
    probs_npu = probs.npu().requires_grad_()
    back = torch_npu.npu_moe_token_unpermute(permuted, places, probs_npu)
    close(back, tokens.double() * probs.double().sum(1, keepdim=True), TOLERANCE[dtype])
    grad = torch.randn(TOKENS, HIDDEN).to(dtype)
    back.backward(grad.npu())
    close(
        probs_npu.grad,
        (grad.double() * tokens.double()).sum(1, keepdim=True).expand(TOKENS, K),
        3 * TOLERANCE[dtype],
    )
    close(device.grad, grad.double() * probs.double().sum(1, keepdim=True), 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("pad", [False, True])
def test_routing_map(dtype, pad):
    torch.manual_seed(0)
    tokens = torch.randn(TOKENS, HIDDEN).to(dtype)
    routing = torch.zeros(TOKENS, EXPERTS, dtype=torch.bool).scatter(1, routes(), True)
    probs = torch.rand(TOKENS, EXPERTS).to(dtype)
    capacity = 2
    if pad:
        source = torch.argsort(routing.T.to(torch.int8), dim=-1, descending=True, stable=True)[
            :, :capacity
        ].flatten()
        expert = torch.arange(EXPERTS).repeat_interleave(capacity)
    else:
        source = torch.arange(TOKENS).expand(EXPERTS, TOKENS)[routing.T]
        expert = torch.arange(EXPERTS).repeat_interleave(routing.sum(0))
    td, pd = tokens.double().requires_grad_(), probs.double().requires_grad_()
    want = (td[source], pd[source, expert])
    grads = [torch.randn(t.shape).to(dtype) for t in want]
    expected = torch.autograd.grad(want, (td, pd), [g.double() for g in grads])

    tn, pn = tokens.npu().requires_grad_(), probs.npu().requires_grad_()
    permuted, permuted_probs, places = torch_npu.npu_moe_token_permute_with_routing_map(
        tn, routing.npu(), probs=pn, num_out_tokens=len(source), drop_and_pad=pad
    )
    close(permuted, want[0], 0)
    close(permuted_probs, want[1], 0)
    torch.autograd.backward((permuted, permuted_probs), [g.npu() for g in grads])
    close(tn.grad, expected[0], TOLERANCE[dtype])
    close(pn.grad, expected[1], 0)

    rows = torch.randn(len(source), HIDDEN).to(dtype)
    rd, pd = rows.double().requires_grad_(), probs.double().requires_grad_()
    want_back = torch.zeros(TOKENS, HIDDEN, dtype=torch.double).index_add(
        0, source, rd * pd[source, expert, None]
    )
    grad = torch.randn(TOKENS, HIDDEN).to(dtype)
    expected = torch.autograd.grad(want_back, (rd, pd), grad.double())
    rn, pn = rows.npu().requires_grad_(), probs.npu().requires_grad_()
    back = torch_npu.npu_moe_token_unpermute_with_routing_map(
        rn, places, (TOKENS, HIDDEN), probs=pn, routing_map=routing.npu(), drop_and_pad=pad
    )
    close(back, want_back, TOLERANCE[dtype])
    back.backward(grad.npu())
    close(rn.grad, expected[0], TOLERANCE[dtype])
    close(pn.grad, expected[1], 2 * TOLERANCE[dtype])


def test_gating_top_k_softmax():
    torch.manual_seed(0)
    x = torch.randn(TOKENS, 8)
    finished = torch.zeros(TOKENS, dtype=torch.bool)
    finished[2] = True
    y, expert, row = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), k=K)
    values, places = torch.softmax(x.double(), -1).topk(K)
    places[2] = 8
    close(y, values, 1e-6)
    assert torch.equal(expert.cpu().long(), places)
    assert torch.equal(row.cpu().long(), torch.arange(TOKENS * K).view(K, TOKENS).T)


@pytest.mark.parametrize("group_type", [0, 2])
@pytest.mark.parametrize("list_type", [0, 1])
def test_grouped_matmul(group_type, list_type):
    torch.manual_seed(0)
    sizes = torch.tensor([3, 0, 4])
    listed = (sizes if list_type else sizes.cumsum(0)).npu()
    begins = [0, 3, 3]
    if group_type == 0:
        x, weight = torch.randn(7, 5), torch.randn(3, 5, 2)
        want = torch.cat(
            [x[b : b + s] @ weight[i] for i, (b, s) in enumerate(zip(begins, sizes, strict=True))]
        )
    else:
        x, weight = torch.randn(7, 5).t(), torch.randn(7, 2)
        want = torch.stack([x[:, b : b + s] @ weight[b : b + s] for b, s in zip(begins, sizes, strict=True)])
    (got,) = torch_npu.npu_grouped_matmul(
        [x.npu()],
        [weight.npu()],
        group_list=listed,
        split_item=3,
        group_type=group_type,
        group_list_type=list_type,
    )
    close(got.view(want.shape), want, 1e-5)
