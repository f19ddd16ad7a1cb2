"""What two ranks check of products joined to exchanges, against float64. test_rank_quant
runs it in the processes that it starts anyway."""

EXCHANGES = """
E = 2
F8 = torch.float8_e4m3fn
# counts[sender][receiver][expert of the receiver]
COUNTS = [[[1, 0], [2, 3]], [[0, 4], [1, 0]]]
SEND = sum(COUNTS[rank], [])
RECEIVE = sum((COUNTS[other][rank] for other in range(ranks)), [])


def experts_of(r):
    torch.manual_seed(300 + r)
    x = torch.randn(sum(map(sum, COUNTS[r])), 8).half()
    return x, torch.randn(E, 8, 6).half(), torch.randn(3, 4).half(), torch.randn(4, 2).half()


def arrived(of):
    # What this rank receives, ordered by expert and then by rank.
    found = []
    for expert in range(E):
        for sender in range(ranks):
            before = sum(map(sum, COUNTS[sender][:rank])) + sum(COUNTS[sender][rank][:expert])
            found.append(of(sender)[before : before + COUNTS[sender][rank][expert]])
    return torch.cat(found)


def by_expert(rows, weight):
    sizes = [RECEIVE[expert] + RECEIVE[E + expert] for expert in range(E)]
    return torch.cat([p @ w for p, w in zip(rows.split(sizes), weight)])


x, weight, own, own_weight = experts_of(rank)
ordered = arrived(lambda r: experts_of(r)[0].double())


def forth(x, weight, own, own_weight):
    return torch_npu.npu_alltoallv_gmm(
        x, weight, name, ranks, SEND, RECEIVE, mm_x=own, mm_weight=own_weight,
        permute_out_flag=True,
    )


for made, shared, rows in eager_and_compiled(forth, x, weight, own, own_weight):
    assert made.dtype == torch.float16
    close(made, by_expert(ordered, weight.double()))
    close(shared, own.double() @ own_weight.double())
    assert torch.equal(rows.double(), ordered)

turned, none, _ = torch_npu.npu_alltoallv_gmm(
    x, weight.transpose(1, 2).contiguous(), name, ranks, SEND, RECEIVE, trans_gmm_weight=True
)
close(turned, by_expert(ordered, weight.double()))
assert none.numel() == 0

# Backwards each rank gets its own rows again, times the weight of their expert.
def back(rows, weight, own, own_weight):
    return torch_npu.npu_gmm_alltoallv(
        rows, weight, name, ranks, RECEIVE, SEND, mm_x=own, mm_weight=own_weight
    )


wanted = []
for receiver, parts in enumerate(COUNTS[rank]):
    for expert, count in enumerate(parts):
        taken = x[sum(map(len, wanted)) :][:count].double()
        wanted.append(taken @ experts_of(receiver)[1][expert].double())
for made, shared in eager_and_compiled(back, ordered.half(), weight, own, own_weight):
    close(made, torch.cat(wanted))
    close(shared, own.double() @ own_weight.double())

# Small floats: one scale, and blocks.
def small(values):
    return values.to(F8)


half = torch.tensor([0.5])
told = {"gmm_y_dtype": HALF, "mm_y_dtype": HALF}
made, shared, rows = torch_npu.npu_alltoallv_quant_gmm(
    small(x), small(weight), half, half, name, ranks, SEND, RECEIVE, permute_out_flag=True,
    mm_x=small(own), mm_weight=small(own_weight), mm_x_scale=half, mm_weight_scale=half, **told,
)
ordered8 = arrived(lambda r: small(experts_of(r)[0]).float().double())
weight8 = small(weight).float().double()
close(made, by_expert(ordered8, weight8) / 4)
close(shared, small(own).float().double() @ small(own_weight).float().double() / 4)
assert torch.equal(rows.float().double(), ordered8)
made, _ = torch_npu.npu_quant_gmm_alltoallv(
    small(ordered8.half()), small(weight), half, half, name, ranks, RECEIVE, SEND, HALF
)
wanted = []
for receiver, parts in enumerate(COUNTS[rank]):
    for expert, count in enumerate(parts):
        taken = small(x[sum(map(len, wanted)) :][:count]).float().double()
        wanted.append(taken @ small(experts_of(receiver)[1][expert]).float().double() / 4)
close(made, torch.cat(wanted))


def mx_scales(r):
    torch.manual_seed(400 + r)
    x_scale = (2.0 ** torch.randint(-2, 3, (len(experts_of(r)[0]), 1, 2))).to(E8)
    return x_scale, (2.0 ** torch.randint(-2, 3, (E, 1, 6, 2))).to(E8)


x_scale, weight_scale = mx_scales(rank)
mx = {"gmm_x_quant_mode": 6, "gmm_weight_quant_mode": 6, "group_size": [1, 1, 32]}
made, _, _ = torch_npu.npu_alltoallv_quant_gmm(
    small(x), small(weight), x_scale, weight_scale, name, ranks, SEND, RECEIVE, HALF, **mx
)
scaled = arrived(
    lambda r: small(experts_of(r)[0]).float().double() * mx_scales(r)[0][:, 0, :1].float()
)
close(made, by_expert(scaled, weight8 * weight_scale[:, 0, None, :, 0].float().double()))

# Equal blocks.
def blocks_of(r):
    torch.manual_seed(500 + r)
    x1, x2 = torch.randn(4, 8), torch.randn(8 * ranks, 6).to(F8)
    return x1.bfloat16(), x2, torch.rand(6) + 0.5, torch.randn(6)


x1, x2, scale, bias = blocks_of(rank)


def quantised_after(x1, x2, scale, bias):
    return torch_npu.npu_all_to_all_quant_matmul(
        x1, x2, name, ranks, bias=bias, x2_scale=scale, x1_quant_dtype=24, y_dtype=BF16
    )


part = slice(rank * 2, rank * 2 + 2)
sent = torch.cat([blocks_of(r)[0][part] for r in range(ranks)], 1).double()
factor8 = sent.abs().amax(-1, keepdim=True) / 448
values = (sent / factor8).float().to(F8).float().double()
wanted = (values @ x2.float().double() + bias.double()) * factor8 * scale.double()
for made, rows in eager_and_compiled(quantised_after, x1, x2, scale, bias):
    assert made.dtype == torch.bfloat16
    close(made, wanted)
    assert torch.equal(rows.double(), sent)


def mx_blocks_of(r):
    torch.manual_seed(550 + r)
    x1, x2 = torch.randn(4, 64).to(F8), torch.randn(64 * ranks, 6).to(F8)
    row = (2.0 ** torch.randint(-2, 3, (4, 1, 2))).to(E8)
    return x1, x2, row, (2.0 ** torch.randint(-2, 3, (ranks, 6, 2))).to(E8), torch.randn(6)


def in_mx_blocks(x1, x2, row, column, bias):
    return torch_npu.npu_all_to_all_quant_matmul(
        x1, x2, name, ranks, bias=bias, x1_scale=row, x2_scale=column,
        x1_quant_mode=6, x2_quant_mode=6, group_sizes=[1, 1, 32],
    )


def factored(x1, row):
    return x1.float().double() * row.float().double().flatten(1).repeat_interleave(32, 1)


x1, x2, row, column, bias = mx_blocks_of(rank)
sent = torch.cat([mx_blocks_of(r)[0][part].float() for r in range(ranks)], 1)
rows = torch.cat(
    [factored(mx_blocks_of(r)[0], mx_blocks_of(r)[2])[part] for r in range(ranks)], 1
)
factors = column.float().double().transpose(1, 2).flatten(0, 1).repeat_interleave(32, 0)
wanted = rows @ (x2.float().double() * factors) + bias.double()
for made, kept in eager_and_compiled(in_mx_blocks, x1, x2, row, column, bias):
    assert made.dtype == torch.float32 and kept.dtype == F8
    close(made, wanted)
    assert torch.equal(kept.float(), sent)
for change, text in (
    ({"x1_scale": None}, "x1_scale is needed in x1_quant_mode 6"),
    ({"x1": x1[:, :32]}, "rows of x1 must have a multiple of 64 elements, got 32"),
    ({"x1_scale": row.float()}, "x1_scale must be uint8"),
    ({"x1_quant_mode": 7, "x2_quant_mode": 2}, "x1_scale needs x1_quant_mode 6"),
    ({"x2_quant_mode": 2}, "x1_quant_mode and x2_quant_mode must be one of"),
):
    given = {"x1": x1, "x2": x2, "x1_scale": row, "x2_scale": column, **change}
    modes = {"x1_quant_mode": 6, "x2_quant_mode": 6}
    with pytest.raises(RuntimeError, match=f"npu_all_to_all_quant_matmul: .*{text}"):
        torch_npu.npu_all_to_all_quant_matmul(
            hcom=name, world_size=ranks, **{**modes, **given}
        )


# Integers.
def integers_of(r):
    torch.manual_seed(570 + r)
    x1, eights = torch.randn(4, 8).bfloat16(), torch.randint(-127, 128, (8 * ranks, 16))
    fours, rows = torch.randint(-8, 8, (8 * ranks, 16)), torch.randint(-8, 8, (4, 8))
    tables = torch.rand(4) + 0.5, torch.rand(16) + 0.5, torch.randn(16)
    return x1, eights.to(torch.int8), fours, rows, (torch.rand(8 * ranks) + 0.5).bfloat16(), *tables


def packed(values):
    return torch_npu.npu_convert_weight_to_int4pack(values.int())


def of_integers(x1, x2, scale, bias, x1_scale=None, mode=None):
    return torch_npu.npu_all_to_all_quant_matmul(
        x1, x2, name, ranks, bias=bias, x2_scale=scale, x1_scale=x1_scale,
        x1_quant_mode=mode, y_dtype=BF16,
    )


x1, eights, fours, rows4, smooth, row_scales, scale, bias = integers_of(rank)
sent = torch.cat([integers_of(r)[0][part] for r in range(ranks)], 1)
for weight, plain, largest in ((eights, eights, 127), (packed(fours), fours, 7)):
    for given in (None, smooth):
        wide = sent.double() if given is None else sent.double() * given.double()
        factor = wide.abs().amax(-1, keepdim=True) / largest
        sums = (wide / factor).round() @ plain.double()
        wanted = sums * factor * scale.double() + bias.double()
        for made, rows in eager_and_compiled(of_integers, x1, weight, scale, bias, given):
            assert made.dtype == torch.bfloat16 and torch.equal(rows, sent)
            close(made, wanted)
symbolic = torch.compile(
    of_integers, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True
)
close(symbolic(x1, packed(fours), scale, bias, smooth)[0], wanted)
sent4 = torch.cat([integers_of(r)[3][part] for r in range(ranks)], 1)
wanted = (sent4 @ fours).double() * row_scales[part].double()[:, None] * scale.double()
given = packed(rows4), packed(fours), scale, bias.bfloat16(), row_scales, 3
for made, rows in eager_and_compiled(of_integers, *given):
    assert made.dtype == torch.bfloat16 and torch.equal(rows, packed(sent4))
    close(made, wanted + bias.bfloat16().double())
close(symbolic(*given)[0], wanted + bias.bfloat16().double())


def integers_exchanged_after(x1, x2, row, column, bias):
    return torch_npu.npu_quant_matmul_all_to_all(
        x1, x2, name, ranks, bias, row, column, y_dtype=HALF
    )


def integer_product(r):
    _, x2, _, x1, _, row, column, bias = (t.double() for t in integers_of(r))
    return x1 @ x2[:8] * row[:, None] * column + bias


given = rows4.to(torch.int8), eights[:8], row_scales, scale, bias
columns = slice(rank * 16 // ranks, (rank + 1) * 16 // ranks)
wanted = torch.cat([integer_product(r)[:, columns] for r in range(ranks)])
for made in eager_and_compiled(integers_exchanged_after, *given):
    assert made.dtype == torch.float16
    close(made, wanted)

for change, text in (
    ({"x1_quant_mode": 3}, "x1 of torch.bfloat16 needs x1_quant_mode 7"),
    ({"x1": packed(rows4)}, "x1 of int4 needs x1_quant_mode 3 and x2 of int4"),
    ({"x1": packed(rows4), "x1_quant_mode": 3}, "x1 of int4 needs x1_quant_mode 3 and"),
    ({"x1": x1.float()}, "x1 must be float16, bfloat16, got torch.float32"),
    ({"x1": x1[:, :4]}, "16 must divide the elements of the rows of all ranks, "),
    ({"x2": eights[:4]}, "don't fit"),
    ({"y_dtype": None}, "y_dtype must be that of x1, got torch.float32"),
    ({"y_dtype": HALF}, "y_dtype must be that of x1, got torch.float16"),
    ({"x1_scale": smooth.float()}, "x1_scale must be bfloat16, got torch.float32"),
    ({"x1_scale": smooth[:4]}, "x1_scale must have shape"),
    ({"x2_scale": None}, "x2_scale is needed"),
    ({"x2_scale": scale[:4]}, "x2_scale must have shape"),
    ({"bias": bias.half()}, "bias must be bfloat16, float32, got torch.float16"),
    ({"x1_quant_dtype": 24}, "x1_quant_dtype must be one of"),
    ({"x2_dtype": 290}, "x2_dtype is for small floats"),
    ({"x1_quant_mode": 6, "x2_quant_mode": 6}, "x1_quant_mode and x2_quant_mode must be"),
    ({"x1_quant_mode": 0}, "x1_quant_mode and x2_quant_mode must be one of"),
):
    given = {"x1": x1, "x2": eights, "x2_scale": scale, "bias": bias, "y_dtype": BF16}
    with pytest.raises(RuntimeError, match=f"npu_all_to_all_quant_matmul: .*{text}"):
        torch_npu.npu_all_to_all_quant_matmul(
            hcom=name, world_size=ranks, **{**given, **change}
        )
for change, text in (
    ({"x1": x1}, "x1 must be int8, got torch.bfloat16"),
    ({"x2": fours.int()}, "x2 must be int8, got torch.int32"),
    ({"x1_scale": row_scales[:2]}, "x1_scale must have shape"),
    ({"y_dtype": None}, "y_dtype must be float16 or bfloat16 for integers"),
    ({"bias": bias.bfloat16()}, "bias must be float16, float32"),
    ({"x1_scale_dtype": 293}, "x1_scale_dtype is for small floats"),
    ({"x1_quant_mode": 6, "x2_quant_mode": 6}, "x1_quant_mode and x2_quant_mode must be"),
):
    given = {"x1": rows4.to(torch.int8), "x2": eights[:8], "x1_scale": row_scales}
    given |= {"x2_scale": scale, "bias": bias, "y_dtype": HALF, **change}
    with pytest.raises(RuntimeError, match=f"npu_quant_matmul_all_to_all: .*{text}"):
        torch_npu.npu_quant_matmul_all_to_all(hcom=name, world_size=ranks, **given)


def small_blocks(r):
    torch.manual_seed(600 + r)
    x1, x2 = torch.randn(4, 8).to(F8), torch.randn(8, 6).to(F8)
    return x1, x2, torch.rand(4) + 0.5, torch.rand(6) + 0.5, torch.randn(6)


def product(r):
    x1, x2, row, column, bias = (t.float().double() for t in small_blocks(r))
    return (x1 @ x2 + bias) * row[:, None] * column


x1, x2, row, column, bias = small_blocks(rank)


def exchanged_after(x1, x2, row, column, bias):
    return torch_npu.npu_quant_matmul_all_to_all(
        x1, x2, name, ranks, bias, row, column, x1_quant_mode=3, x2_quant_mode=2
    )


wanted = torch.cat([product(r)[:, rank * 3 : rank * 3 + 3] for r in range(ranks)])
for made in eager_and_compiled(exchanged_after, x1, x2, row, column, bias):
    assert made.dtype == torch.float32
    close(made, wanted)

right = {"hcom": name, "ep_world_size": ranks, "send_counts": SEND, "recv_counts": RECEIVE}
small_right = {"gmm_x_scale": half, "gmm_weight_scale": half, "gmm_y_dtype": HALF}
row_mode = {"x1_quant_mode": 3, "x2_quant_mode": 2}
F, W = experts_of(rank)[:2]
for operator, arguments, change, text in (
    ("npu_alltoallv_gmm", (F, W), {"send_counts": [1]}, "send_counts must have 4 counts"),
    ("npu_alltoallv_gmm", (F, W), {"send_counts": [99, 0, 0, 0]}, "must add up to the"),
    ("npu_alltoallv_gmm", (F, W), {"recv_counts": [-1, 0, 0, 1]}, "must not be negative"),
    ("npu_alltoallv_gmm", (F, W), {"ep_world_size": 5}, "ep_world_size must be that of"),
    ("npu_alltoallv_gmm", (F, W), {"mm_x": F}, "mm_x and mm_weight go together"),
    ("npu_alltoallv_gmm", (F, W), {"trans_mm_weight": True}, "trans_mm_weight needs"),
    ("npu_gmm_alltoallv", (F, W[0]), {}, "gmm_weight must have 3 dimensions, got 2"),
    ("npu_gmm_alltoallv", (F, W.float()), {}, "gmm_weight must be float16"),
    ("npu_gmm_alltoallv", (F, W), {"recv_counts_tensor": F}, "recv_counts_tensor must be"),
    ("npu_gmm_alltoallv", (F, W), {"comm_mode": "no such"}, "comm_mode must be one of"),
):
    with pytest.raises(RuntimeError, match=f"{operator}: .*{text}"):
        getattr(torch_npu, operator)(*arguments, **{**right, **change})
for change, text in (
    ({"gmm_x_quant_mode": 2}, "gmm_x_quant_mode must be 1 .one scale. or 6 .MX., got 2"),
    ({"gmm_x_quant_mode": 6}, "needs the same gmm_weight_quant_mode"),
    ({"mm_x": small(own)}, "mm_x and mm_weight go together"),
    ({"mm_x_scale": half}, "mm_x_scale needs mm_x and mm_weight"),
    ({"gmm_x_scale": torch.ones(2)}, "gmm_x_scale must have shape"),
    ({"group_size": [1, 1, 32]}, "group_size must be one of"),
    ({"gmm_y_dtype": 6}, "gmm_y_dtype must be float16, bfloat16"),
    ({"comm_quant_mode": 1}, "comm_quant_mode must be 0, got 1"),
    ({"comm_quant_dtype": 1}, "comm_quant_dtype must be None"),
):
    with pytest.raises(RuntimeError, match=f"npu_quant_gmm_alltoallv: .*{text}"):
        torch_npu.npu_quant_gmm_alltoallv(
            small(F), small(W), **{**right, **small_right, **change}
        )
for change, text in (
    ({"x1_quant_mode": 7}, "x1_quant_mode and x2_quant_mode must be one of"),
    ({"common_quant_mode": 1}, "common_quant_mode must be 0, got 1"),
    ({"all2all_axes": [0, 1]}, "all2all_axes must be .-1, -2. or None"),
    ({"group_sizes": [1, 1, 32]}, "group_sizes must be None or one of"),
    ({"x1_scale": None}, "x1_scale is needed"),
    ({"y_dtype": 3}, "y_dtype must be float16, bfloat16, float32"),
    ({"x2": x2[:, :5], "x2_scale": None}, "x2_scale is needed"),
    ({"comm_quant_dtype": 1}, "comm_quant_dtype must be -1 or None"),
):
    given = {"x1": x1, "x2": x2, "x1_scale": row, "x2_scale": column, **row_mode, **change}
    with pytest.raises(RuntimeError, match=f"npu_quant_matmul_all_to_all: .*{text}"):
        torch_npu.npu_quant_matmul_all_to_all(hcom=name, world_size=ranks, **given)
print("exchanged")
"""
