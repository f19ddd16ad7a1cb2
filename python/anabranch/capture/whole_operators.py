"""Operators that reach the compiler whole: rows of the operator table that
`addWhole` adds. scripts/operators.py writes this file."""

NAMES = (
    "_fused_rms_norm",
    "_scaled_dot_product_flash_attention_for_cpu",
    "index_add",
    "index_copy",
    "index_fill.int_Scalar",
    "index_fill.int_Tensor",
    "linear",
    "one_hot",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "rms_norm",
    "roll",
    "scaled_dot_product_attention",
    "select_scatter",
    "silu",
)
