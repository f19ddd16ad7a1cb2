"""The operators of random graphs: how each chooses its operands and is spelled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from random_graphs import Picks, Value, Writer

Step = Callable[[Writer, Picks], None]

# In about PyTorch's order of promotion: simple dtypes come first.
CASTS = ("f32", "i64", "bf16", "f64", "f16", "i32", "bool", "i8", "i16", "u8")
FLOATS = ("f32", "bf16", "f64", "f16")


def floating(value: Value) -> bool:
    return value.tensor.is_floating_point()


def integral(value: Value) -> bool:
    return not floating(value)


def signed(value: Value) -> bool:
    return value.tensor.dtype not in (torch.bool, torch.uint8)


def number(value: Value) -> bool:
    return value.tensor.dtype != torch.bool


def has_dims(rank: int) -> Callable[[Value], bool]:
    return lambda value: value.tensor.dim() >= rank


def magnitude(value: Value) -> float:
    if value.tensor.numel() == 0:
        return 0.0
    return float(value.tensor.double().abs().max())


# Pointwise

EXACT_UNARY = (
    "-{}",
    "torch.abs({})",
    "torch.relu({})",
    "torch.sign({})",
    "torch.clamp({}, -1, 2)",
    "torch.clone({})",
    "{} * 1",
    "torch.positive({})",
)
SMOOTH_UNARY = (
    "torch.sin({})",
    "torch.tanh({})",
    "torch.sigmoid({})",
    "torch.exp(torch.clamp({}, -9, 4))",
    "F.gelu({})",
    "F.gelu({}, approximate='tanh')",
    "F.silu({})",
    "torch.cos({})",
    "torch.erf({})",
    "torch.sqrt(torch.abs({}) + 0.5)",
    "torch.rsqrt(torch.abs({}) + 0.5)",
    "torch.log(torch.abs({}) + 0.5)",
    "torch.log1p(torch.abs({}))",
    "torch.expm1(torch.clamp({}, -9, 4))",
    "torch.atan({})",
    "torch.reciprocal(torch.abs({}) + 1)",
    "torch.square({})",
    "F.softplus({})",
    "F.elu({})",
    "F.leaky_relu({}, 0.1)",
    "F.hardswish({})",
    "F.hardtanh({})",
    "F.relu6({})",
    "F.mish({})",
    "F.logsigmoid({})",
    "torch.sinh(torch.clamp({}, -3, 3))",
    "torch.asinh({})",
    "torch.exp2(torch.clamp({}, -9, 4))",
    "torch.log2(torch.abs({}) + 0.5)",
    "{} ** 3",
    "{} ** 2",
    "torch.abs({}) ** 0.5",
)
DECISIONS = (
    "torch.floor({})",
    "torch.ceil({})",
    "torch.round({})",
    "torch.trunc({})",
    "{} > 0",
    "{} == 1",
    "{} <= 0.5",
    "torch.logical_not({})",
    "torch.isnan({})",
    "torch.isfinite({})",
    "{}.bool()",
    "{} != 0",
    "torch.signbit({})",
    "torch.heaviside({0}, torch.ones_like({0}))",
    "torch.frac({})",
    "torch.round({}, decimals=1)",
)


def fill(text: str, name: str) -> str:
    return text.replace("{0}", name).replace("{}", name)


def unary(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, signed)
    if value:
        writer.add(fill(picks.of(EXACT_UNARY), value.name), value, exact=True)


def smooth(writer: Writer, picks: Picks) -> None:
    """Also takes integers; the results are f32."""
    value = writer.pick(picks)
    if value:
        writer.add(fill(picks.of(SMOOTH_UNARY), value.name), value)


def decide(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, lambda value: value.exact)
    if value:
        writer.add(fill(picks.of(DECISIONS), value.name), value, exact=True)


def binary(writer: Writer, picks: Picks) -> None:
    form = picks.of(
        (
            "{} + {}",
            "{} * {}",
            "{} - {}",
            "torch.maximum({}, {})",
            "torch.minimum({}, {})",
            "{} / (torch.abs({}) + 1)",
            "torch.add({}, {}, alpha=2)",
            "torch.sub({}, {}, alpha=3)",
            "torch.atan2({}, torch.abs({}) + 1)",
            "torch.lerp({}, {}, 0.25)",
            "torch.hypot({}, torch.abs({}) + 0.5)",
            "torch.logaddexp({}, {})",
            "torch.true_divide({}, 4) + {}",
            "torch.rsub({}, {})",
        )
    )
    left, right = writer.pick(picks), writer.pick(picks)
    if left and right:
        writer.add(form.format(left.name, right.name), left, right)


def compare(writer: Writer, picks: Picks) -> None:
    sign = picks.of(("<", "==", ">=", "!=", ">", "<="))
    left = writer.pick(picks, lambda value: value.exact)
    right = writer.pick(picks, lambda value: value.exact)
    if left and right:
        writer.add(f"{left.name} {sign} {right.name}", left, right)


def integers(writer: Writer, picks: Picks) -> None:
    form = picks.of(
        (
            "{} & {}",
            "{} | {}",
            "{} ^ {}",
            "~{} | {}",
            "torch.logical_and({}, {})",
            "torch.logical_xor({}, {})",
            "{} // (({} & 3) + 1)",
            "{} % (({} & 3) + 2)",
            "{} << ({} & 3)",
            "{} >> ({} & 3)",
            "torch.fmod({}, ({} & 3) + 1)",
            "torch.div({}, ({} & 3) + 1, rounding_mode='trunc')",
            "torch.gcd({}, {})",
        )
    )
    left, right = writer.pick(picks, integral), writer.pick(picks, integral)
    if left and right:
        writer.add(form.format(left.name, right.name), left, right)


def remainder(writer: Writer, picks: Picks) -> None:
    form = picks.of(
        (
            "torch.remainder({}, 3)",
            "torch.floor_divide({}, 2)",
            "torch.fmod({}, -2)",
            "torch.div({}, -4, rounding_mode='floor')",
            "torch.remainder({}, -2.5)",
            "torch.div({}, 2.5, rounding_mode='trunc')",
        )
    )
    value = writer.pick(picks, lambda value: value.exact)
    if value:
        writer.add(form.format(value.name), value)


def scalar(writer: Writer, picks: Picks) -> None:
    form = picks.of(
        (
            "{} + 1",
            "{} * 2",
            "{} * 0.5",
            "1 - {}",
            "{} * True",
            "{} + 2.0",
            "3 * {} - 1.5",
            "{}.shape[0] + {}",
            "{} / 3",
            "{} * -0.25",
        )
    )
    value = writer.pick(picks)
    if value:
        writer.add(fill(form, value.name), value)


def cast(writer: Writer, picks: Picks) -> None:
    kind = picks.of(CASTS)
    value = writer.pick(picks)
    if not value:
        return
    if kind not in FLOATS:
        small = magnitude(value) < 100
        negative = value.tensor.numel() and bool((value.tensor < 0).any())
        if floating(value) and not (value.exact and small):
            return
        if floating(value) and kind == "u8" and negative:
            return
    fits = magnitude(value) <= 64
    writer.add(f"{value.name}.to({kind})", value, exact=fits)


def where(writer: Writer, picks: Picks) -> None:
    mask = writer.pick(picks, lambda value: value.tensor.dtype == torch.bool)
    left, right = writer.pick(picks), writer.pick(picks)
    if not (mask and left and right):
        return
    form = picks.of(
        (
            f"torch.where({mask.name}, {left.name}, {right.name})",
            f"{left.name}.masked_fill({mask.name}, 1)",
            f"torch.where({mask.name}, {left.name}, 0.5)",
            f"torch.where({mask.name}, 2, {left.name})",
        )
    )
    writer.add(form, mask, left, right, exact=True)


# Reductions and rows


def over(picks: Picks, value: Value) -> str:
    """`dim` and `keepdim`, as arguments."""
    rank = value.tensor.dim()
    if rank == 0 or picks(5) == 4:
        return ""
    dim = picks(rank) - 1
    keep = ", keepdim=True" if picks(2) else ""
    if rank > 1 and picks(3) == 2:
        return f", dim=({dim}, {dim - 1 if dim > 0 else dim + 1}){keep}"
    return f", dim={dim}{keep}"


def reduce(writer: Writer, picks: Picks) -> None:
    name = picks.of(("sum", "mean", "amax", "amin", "var", "std", "norm", "logsumexp"))
    value = writer.pick(picks)
    if not value:
        return
    where_ = over(picks, value)
    if name in ("amax", "amin"):
        writer.add(f"torch.{name}({value.name}{where_})", value, exact=True)
    elif name == "norm":
        writer.add(f"torch.linalg.vector_norm({value.name}{where_})", value)
    else:
        writer.add(f"torch.{name}({value.name}{where_})", value)


def reduce_exact(writer: Writer, picks: Picks) -> None:
    name = picks.of(("any", "all", "argmax", "argmin", "count_nonzero"))
    value = writer.pick(picks, lambda value: value.exact)
    if value and value.tensor.dim():
        dim = picks(value.tensor.dim()) - 1
        keep = ", keepdim=True" if name[0] == "a" and picks(2) else ""
        writer.add(f"torch.{name}({value.name}, dim={dim}{keep})", value)


def extreme(writer: Writer, picks: Picks) -> None:
    """The values only: for equal elements, PyTorch does not say which index it returns."""
    name = picks.of(("max", "min", "sort", "topk", "cummax"))
    value = writer.pick(picks, has_dims(1))
    if value:
        count = "1, " if name == "topk" else ""
        text = f"torch.{name}({value.name}, {count}dim=-1)[0]"
        writer.add(text, value, exact=True)


def scan(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, has_dims(1))
    if value:
        dim = picks(value.tensor.dim()) - 1
        writer.add(f"torch.cumsum({value.name}, dim={dim})", value)


def rows(writer: Writer, picks: Picks) -> None:
    form = picks.of(
        (
            "torch.softmax({}, dim=-1)",
            "F.layer_norm({}, {}.shape[-1:])",
            "F.rms_norm({}, {}.shape[-1:])",
            "F.log_softmax({}, dim=-1)",
            "torch.softmax({}, dim=0)",
            "F.layer_norm({}, {}.shape[-2:])",
            "F.softmin({}, dim=-1)",
            "F.normalize({}, dim=-1)",
            "F.group_norm({}, 1)",
            "{} - {}.mean(-1, keepdim=True)",
            "{} / {}.abs().sum(0, keepdim=True).add(1)",
        )
    )
    value = writer.pick(picks, lambda v: floating(v) and v.tensor.dim() > 0)
    if value:
        writer.add(fill(form, value.name), value)


def scaled_rows(writer: Writer, picks: Picks) -> None:
    """Norms with weights of their own."""
    value = writer.pick(picks, lambda v: floating(v) and v.tensor.dim() > 0)
    if not value:
        return
    size = value.tensor.shape[-1:]
    fits = [v for v in writer.values if v.tensor.shape == size and floating(v)]
    weight = next((v for v in fits if v.tensor.dtype == value.tensor.dtype), None)
    if weight:
        name = value.name
        form = picks.of(
            (
                f"F.layer_norm({name}, {name}.shape[-1:], {weight.name})",
                f"F.rms_norm({name}, {name}.shape[-1:], {weight.name})",
                f"F.layer_norm({name}, {name}.shape[-1:], {weight.name}, {weight.name})",
            )
        )
        writer.add(form, value, weight)


# Products


def product(writer: Writer, picks: Picks) -> None:
    """The product of two values that fit; else of one with its own transpose."""
    left = writer.pick(picks, lambda v: number(v) and v.tensor.dim() > 1)
    if not left:
        return
    inner, kind = left.tensor.shape[-1], left.tensor.dtype

    def fits(value: Value) -> bool:
        shape = value.tensor.shape
        return len(shape) > 1 and value.tensor.dtype == kind and inner in shape[-2:]

    right = writer.pick(picks, fits)
    if not right:
        return
    transposed = ".mT" if right.tensor.shape[-2] != inner or picks(2) else ""
    form = picks.of(("{} @ {}{}", "torch.matmul({}, {}{}) + 1", "F.linear({}, {}{})"))
    if form.startswith("F"):
        transposed = "" if right.tensor.shape[-1] == inner else ".mT"
    writer.add(form.format(left.name, right.name, transposed), left, right)


def biased_product(writer: Writer, picks: Picks) -> None:
    left = writer.pick(picks, lambda v: floating(v) and v.tensor.dim() == 2)
    if not left:
        return
    kind, shape = left.tensor.dtype, left.tensor.shape
    square = [
        v
        for v in writer.values
        if v.tensor.dim() == 2
        and v.tensor.dtype == kind
        and v.tensor.shape[1] == shape[1]
    ]
    weight = square[-1 - picks(len(square))]
    bias = [
        v
        for v in writer.values
        if v.tensor.dtype == kind and v.tensor.shape == weight.tensor.shape[:1]
    ]
    if not bias:
        return
    names = (bias[-1].name, left.name, weight.name)
    form = picks.of(
        (
            "F.linear({1}, {2}, {0})",
            "torch.addmm({0}, {1}, {2}.t())",
            "F.gelu(F.linear({1}, {2}, {0}))",
            "torch.addmm({0}, {1}, {2}.t(), beta=0.5, alpha=2)",
        )
    )
    writer.add(form.format(*names), left, weight, bias[-1])


def attend(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, lambda v: floating(v) and v.tensor.dim() == 4)
    if not value:
        return
    shape, kind = value.tensor.shape, value.tensor.dtype
    alike = [
        v for v in writer.values if v.tensor.shape == shape and v.tensor.dtype == kind
    ]
    keys, values = picks.of(alike), picks.of(alike)
    causal = ", is_causal=True" if picks(2) else ""
    names = f"{value.name}, {keys.name}, {values.name}"
    text = f"F.scaled_dot_product_attention({names}{causal})"
    writer.add(text, value, keys, values)


# Views

VIEWS = (
    "{v}.transpose({d}, -1)",
    "{v}[{k}:]",
    "{v}.unsqueeze({d})",
    "{v}.reshape(-1)",
    "{v}.flatten({d})",
    "{v}.select({d}, 0)",
    "{v}[..., ::2]",
    "{v}.permute(*reversed(range({v}.dim())))",
    "{v}.squeeze()",
    "torch.flip({v}, [{d}])",
    "F.pad({v}, ({k}, 1))",
    "F.pad({v}, (1, {k}, 0, 2), value=1.5)",
    "{v}.expand(2, *{v}.shape)",
    "{v}.unsqueeze(-1).expand(*{v}.shape, 3)",
    "{v}.contiguous()",
    "{v}[..., -1:]",
    "{v}.narrow({d}, 0, 1)",
    "{v}.repeat(2, *[1] * ({v}.dim() - 1))",
    "torch.roll({v}, 1, {d})",
    "{v}.tile(2)",
    "{v}.unflatten({d}, (1, -1))",
    "{v}.reshape(*{v}.shape[:-1], 1, -1)",
    "{v}.mT.reshape(-1)",
    "{v}.movedim(0, -1)",
    "torch.diagonal({v})",
    "torch.tril({v})",
    "torch.triu({v}, 1)",
    "{v}.unfold({d}, 2, 1)",
    "{v}.repeat_interleave(2, {d})",
    "F.pad({v}, (-1, {k}))",
    "{v}[:, 1::2]",
    "{v}[None, ..., None]",
    "{v}.view({v}.shape)",
    "torch.rot90({v})",
    "{v}.T.contiguous()",
    "{v}.view(-1, 1)",
    "torch.broadcast_to({v}, (2, *{v}.shape))",
    "F.pad({v}, (1, 1), mode='reflect')",
)


def view(writer: Writer, picks: Picks) -> None:
    form = picks.of(VIEWS)
    value = writer.pick(picks)
    if value:
        dim = picks(max(value.tensor.dim(), 1))
        text = form.format(v=value.name, d=dim, k=picks(3))
        writer.add(text, value, exact=True)


def join(writer: Writer, picks: Picks) -> None:
    first = writer.pick(picks)
    if not first:
        return
    rank = first.tensor.dim()
    second = writer.pick(picks, lambda v: v.tensor.dim() == rank)
    third = writer.pick(picks, lambda v: v.tensor.shape == first.tensor.shape)
    assert second and third
    dim = picks(max(rank, 1))
    form = picks.of(
        (
            f"torch.cat([{first.name}, {second.name}], {dim})",
            f"torch.stack([{first.name}, {third.name}], {dim})",
            f"torch.cat([{third.name}, {second.name}, {first.name}], {dim})",
            f"torch.stack([{first.name}, {third.name}], -1)",
            f"torch.hstack([{first.name}, {second.name}])",
        )
    )
    writer.add(form, first, second, third, exact=True)


def part(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, has_dims(1))
    if value:
        dim = picks(value.tensor.dim())
        form = picks.of(
            (
                "{}.split(2, {})[-1]",
                "{}.chunk(2, {})[0]",
                "{}.unbind({})[-1]",
                "{}.tensor_split(3, {})[1]",
            )
        )
        writer.add(form.format(value.name, dim), value, exact=True)


# Gathers and scatters


def indices(writer: Writer, picks: Picks, size: str) -> Value | None:
    """An integer value; the caller's expression keeps it in range."""
    return writer.pick(
        picks, lambda v: v.tensor.dtype == torch.int64 and v.tensor.dim() > 0
    )


def gather(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, has_dims(1))
    index = indices(writer, picks, "")
    if not value or not index or value.tensor.shape[0] == 0:
        return
    name = value.name
    place = f"({index.name} % {name}.shape[0])"
    form = picks.of(
        (
            f"{name}[{place}]",
            f"torch.index_select({name}, 0, {place}.flatten())",
            f"F.embedding({place}, {name})",
            f"torch.gather({name}, 0, {place})",
            f"torch.take_along_dim({name}, {place}, 0)",
            f"{name}[{place} - {name}.shape[0]]",
            f"{name}[:, {index.name} % {name}.shape[-1]]",
            f"{name}[{place}, {index.name} % {name}.shape[-1]]",
        )
    )
    writer.add(form, value, index, exact=True)


def scatter(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, has_dims(1))
    index = indices(writer, picks, "")
    if not value or not index or value.tensor.shape[0] == 0:
        return
    name = value.name
    place = f"({index.name}.flatten() % {name}.shape[0])"
    rows = (
        f"torch.ones_like({name})[:1].expand({index.name}.numel(), *{name}.shape[1:])"
    )
    form = picks.of(
        (
            f"torch.index_add({name}, 0, {place}, {rows})",
            f"torch.index_copy({name}, 0, {place}, {rows})",
            f"torch.index_fill({name}, 0, {place}, 1)",
            f"torch.index_put({name}, ({place},), {rows}, accumulate=True)",
            f"torch.index_put({name}, ({place},), {rows})",
            f"torch.scatter({name}, 0, {index.name} % {name}.shape[0], 1)",
            f"torch.slice_scatter({name}, {name}[:1] * 2, 0, 0, 1)",
            f"torch.select_scatter({name}, {name}[0] + 1, 0, -1)",
        )
    )
    writer.add(form, value, index)


def create(writer: Writer, picks: Picks) -> None:
    value = writer.pick(picks, has_dims(1))
    if value:
        form = picks.of(
            (
                "torch.arange({}.shape[0])",
                "torch.full_like({}, 2)",
                "torch.zeros({}.shape, dtype=f32)",
                "torch.ones_like({}, dtype=f64)",
                "torch.eye({}.shape[0])",
                "torch.arange(1, {}.shape[-1] * 2 + 1, 2, dtype=i32)",
                "torch.tensor([1.5, 2.0]) * {}.shape[-1]",
                "{}.new_ones(3)",
                "torch.linspace(0, 1, 5) * {}.shape[0]",
            )
        )
        writer.add(form.format(value.name), value, exact="linspace" not in form)


# Writes in place


def write(writer: Writer, picks: Picks) -> None:
    target = writer.pick(picks)
    source = writer.pick(picks)
    if not target or not source:
        return
    form = picks.of(
        (
            "{0}.add_({1})",
            "{0}.copy_({1})",
            "{0}.mul_(0.5)",
            "{0}[:1] = {1}",
            "{0}[..., ::2] = 1",
            "{0}[1:].add_(1)",
            "{0}.clamp_(-1, 1)",
            "{0}.T.mul_(2)",
            "{0}.fill_(1)",
            "{0}.select(-1, 0).copy_({1})",
            "{0}.zero_()",
            "{0}.view(-1)[0] = 3",
            "{0}.masked_fill_({0} > 1, 0)",
            "{0}.sub_({0})",
        )
    )
    if "> 1" in form and not target.exact:
        return
    # A value that eager casts to an integer must not differ by a rounding.
    if integral(target) and floating(source) and "{1}" in form:
        return
    writer.write(form.format(target.name, source.name), target, source)


OPERATORS: dict[str, Step] = {
    "unary": unary,
    "binary": binary,
    "scalar": scalar,
    "view": view,
    "smooth": smooth,
    "cast": cast,
    "decide": decide,
    "compare": compare,
    "integers": integers,
    "remainder": remainder,
    "where": where,
    "reduce": reduce,
    "reduce_exact": reduce_exact,
    "extreme": extreme,
    "scan": scan,
    "rows": rows,
    "scaled_rows": scaled_rows,
    "product": product,
    "biased_product": biased_product,
    "attend": attend,
    "join": join,
    "part": part,
    "gather": gather,
    "scatter": scatter,
    "create": create,
    "write": write,
}
