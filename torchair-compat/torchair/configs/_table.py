"""The options, one row each: everything else about them is made from this table.

A row's `status` says what an option does on this host:
    works    it does what `here` says;
    none     it has no meaning without an NPU: checked, warned of once, ignored;
    missing  not there yet: checked, warned of once if set to another value than
             the default, ignored.
`flat` is its name in `torch.compile(options=...)`; a `-` before it negates. `odd`
says which values don't fit a mode ("any": each assigned value).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ._kinds import (
    ANY,
    BOOL,
    CALLABLE,
    DICT,
    STR,
    Choice,
    Directory,
    File,
    IntList,
    IntRange,
    JsonFile,
    Kind,
    Layers,
    NewPath,
    Steps,
)

MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")
TUNE, REDUCE, EX = MODES


@dataclasses.dataclass(frozen=True)
class Row:
    path: str
    kind: Kind
    default: Any
    grade: str
    status: str
    here: str
    flat: str = ""
    odd: dict[str, Any] = dataclasses.field(default_factory=dict)


def works(
    path: str, kind: Kind, default: Any, grade: str, here: str, **more: Any
) -> Row:
    return Row(path, kind, default, grade, "works", here, **more)


def none(path: str, kind: Kind, default: Any, here: str, **more: Any) -> Row:
    return Row(path, kind, default, "C", "none", here, **more)


def missing(path: str, kind: Kind, default: Any, here: str, **more: Any) -> Row:
    return Row(path, kind, default, "B", "missing", here, **more)


ROWS = (
    works(
        "mode",
        Choice(MODES),
        TUNE,
        "A",
        "all modes compile; `npu_wait_tensor` is for `max-autotune`, tagged events"
        " are for the other two",
    ),
    works(
        "post_grad_custom_pre_pass",
        CALLABLE,
        None,
        "B",
        "called with the ATen graph first of all",
        flat="post_grad_custom_pre_pass",
    ),
    works(
        "post_grad_custom_post_pass",
        CALLABLE,
        None,
        "B",
        "called with the ATen graph last before it is compiled",
        flat="post_grad_custom_post_pass",
    ),
    # debug
    works(
        "debug.graph_dump.type",
        Choice(("txt", "pbtxt", "py")),
        None,
        "A",
        "writes the graph before and after optimisation",
    ),
    works("debug.graph_dump.path", NewPath(), None, "B", "where to"),
    missing("debug.data_dump.type", Choice(("npy",)), None, "values of each node"),
    missing("debug.data_dump.path", NewPath(), None, "where to"),
    missing("debug.data_dump.filter", ANY, None, "which nodes"),
    missing(
        "debug.fx_summary.type",
        Choice(("csv",)),
        None,
        "counts of operators",
        odd={REDUCE: ("csv",)},
    ),
    missing("debug.fx_summary.skip_compile", BOOL, True, "count, but don't compile"),
    works(
        "debug.run_eagerly",
        BOOL,
        False,
        "B",
        "PyTorch runs the graph that would be compiled",
        flat="force_eager",
    ),
    missing("debug.deadlock_check", BOOL, False, "analysis of core use"),
    missing(
        "debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
        BOOL,
        False,
        "a pass of the capture modes",
        flat="-inplace_pass",
        odd={TUNE: (True,)},
    ),
    missing(
        "debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
        BOOL,
        False,
        "a pass of the capture modes",
        flat="-input_inplace_pass",
        odd={TUNE: (True,)},
    ),
    missing(
        "debug.aclgraph.disable_mempool_reuse_in_same_fx",
        BOOL,
        False,
        "memory of captures",
        flat="-reuse_graph_pool_in_same_fx",
    ),
    missing(
        "debug.aclgraph.enable_output_clone",
        BOOL,
        False,
        "outputs are always fresh memory",
        flat="clone_output",
    ),
    missing(
        "debug.aclgraph.static_capture_size_limit",
        IntRange(1),
        64,
        "number of captures",
        flat="capture_limit",
    ),
    missing(
        "debug.aclgraph.clone_input",
        BOOL,
        True,
        "inputs of captures",
        flat="clone_input",
        odd={TUNE: (False,)},
    ),
    missing(
        "debug.aclgraph.remove_cat_ops",
        BOOL,
        True,
        "a pass of the capture modes",
        flat="remove_cat_ops",
    ),
    # aoe_config
    none("aoe_config.aoe_mode", Choice(("2",)), None, "kernel tuning"),
    none("aoe_config.work_path", Directory(), "./", "kernel tuning"),
    none("aoe_config.aoe_config_file", File(), None, "kernel tuning"),
    # export
    missing("export.export_mode", BOOL, False, "set by `dynamo_export`"),
    missing("export.export_path_dir", Directory(), "./", "set by `dynamo_export`"),
    missing("export.export_name", ANY, None, "set by `dynamo_export`"),
    missing("export.weight_name", ANY, None, "set by `dynamo_export`"),
    missing("export.inputs_name", ANY, None, "set by `dynamo_export`"),
    missing(
        "export.experimental.enable_record_nn_module_stack",
        BOOL,
        False,
        "module paths in exports",
        odd={REDUCE: "any"},
    ),
    missing(
        "export.experimental.auto_atc_config_generated",
        BOOL,
        False,
        "topology files of exports",
        odd={REDUCE: "any"},
    ),
    none("export.experimental.enable_lite_export", BOOL, False, "edge converters"),
    # dump_config
    missing(
        "dump_config.enable_dump",
        BOOL,
        False,
        "tensors of a run",
        flat="dump_tensor_data",
        odd={REDUCE: (True,)},
    ),
    missing(
        "dump_config.dump_path", Directory(), "./", "where to", flat="data_dump_dir"
    ),
    missing("dump_config.dump_mode", Choice(("input", "output", "all")), "all", "what"),
    none("dump_config.quant_dumpable", BOOL, False, "inputs before quantisation"),
    missing("dump_config.dump_step", Steps(), "", "which runs"),
    missing("dump_config.dump_layer", Layers(), "", "which nodes"),
    missing(
        "dump_config.dump_data", Choice(("tensor", "stats")), "tensor", "what of them"
    ),
    none("dump_config.dump_config_path", JsonFile(), None, "a vendor's description"),
    missing(
        "dump_config.data_dump_stage",
        Choice(("original", "optimized")),
        "optimized",
        "when",
        flat="data_dump_stage",
    ),
    none(
        "fusion_config.fusion_switch_file",
        File(parse=True),
        None,
        "a vendor's fusion passes",
        odd={REDUCE: "any"},
    ),
    # experimental_config
    none(
        "experimental_config.cc_parallel_enable",
        BOOL,
        False,
        "overlap of engines",
        odd={REDUCE: "any"},
    ),
    works(
        "experimental_config.keep_inference_input_mutations",
        BOOL,
        True,
        "B",
        "inputs are written in place; the result is the same with both values",
    ),
    none("experimental_config.memory_efficiency", BOOL, False, "refreshable memory"),
    works(
        "experimental_config.frozen_parameter",
        BOOL,
        False,
        "B",
        "parameters and buffers become constants of the compiled graph",
        flat="frozen_parameter",
    ),
    missing(
        "experimental_config.static_model_ops_lower_limit",
        IntRange(-1),
        None,
        "static parts of dynamic graphs",
        odd={REDUCE: "any"},
    ),
    none(
        "experimental_config.jit_compile",
        Choice(("auto",)),
        "auto",
        "kernels are always compiled",
    ),
    missing("experimental_config.npu_fx_pass", BOOL, False, "Inductor's joint passes"),
    missing(
        "experimental_config.aot_config_enable_joint_graph",
        BOOL,
        False,
        "forward and backward as one graph",
    ),
    missing(
        "experimental_config.aot_config_output_loss_index", ANY, 0, "of a joint graph"
    ),
    missing(
        "experimental_config.topology_sorting_strategy",
        Choice(("BFS", "DFS", "RDFS", "StableRDFS")),
        "DFS",
        "the program's order is kept",
        odd={REDUCE: ("BFS", "RDFS", "StableRDFS")},
    ),
    missing(
        "experimental_config.enable_ref_data",
        BOOL,
        False,
        "inputs are always written in place",
        odd={REDUCE: "any"},
    ),
    missing(
        "experimental_config.enable_view_optimize",
        BOOL,
        True,
        "views are always folded into what reads them",
        odd={REDUCE: "any"},
    ),
    missing(
        "experimental_config.remove_noop_ops",
        BOOL,
        True,
        "always removed",
        flat="remove_noop_ops",
    ),
    none(
        "experimental_config.tiling_schedule_optimize",
        BOOL,
        False,
        "tiling on the device",
        odd={REDUCE: (True,)},
    ),
    missing(
        "experimental_config.pattern_fusion_pass",
        BOOL,
        True,
        "fusion is decided by the compiler",
        flat="pattern_fusion_pass",
    ),
    Row(
        "experimental_config.aclgraph._aclnn_static_shape_kernel",
        BOOL,
        False,
        "A",
        "works",
        "the graph is compiled for the shapes of its first call, and recorded",
        flat="static_kernel_compile",
        odd={TUNE: (True,)},
    ),
    Row(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir",
        STR,
        None,
        "A",
        "works",
        "folder of the records; else the current one",
        odd={TUNE: "any"},
    ),
    works(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        IntList(),
        None,
        "B",
        "with `run_eagerly`: for which values",
        flat="_vllm_aclnn_static_kernel_sym_range",
    ),
    works(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index",
        IntRange(0),
        0,
        "B",
        "with `run_eagerly`: of which symbolic input",
        flat="_vllm_aclnn_static_kernel_sym_index",
    ),
    missing(
        "experimental_config.aclgraph._super_kernel_optimize",
        BOOL,
        False,
        "fusion of captured kernels",
        flat="super_kernel_optimize",
    ),
    none(
        "experimental_config.aclgraph._super_kernel_optimize_options",
        DICT,
        None,
        "fusion of captured kernels",
        flat="super_kernel_optimize_options",
    ),
    none(
        "experimental_config.aclgraph._super_kernel_debug_options",
        DICT,
        None,
        "fusion of captured kernels",
        flat="super_kernel_debug_options",
    ),
    works(
        "inference_config.dynamic_gears_merge_policy",
        Choice(("zip", "product")),
        "zip",
        "A",
        "how the gears of several dimensions are combined",
        odd={REDUCE: ("product",)},
    ),
    # ge_config
    works(
        "ge_config.enable_single_stream",
        BOOL,
        False,
        "A",
        "everything on one stream; stream scopes are then an error",
        odd={REDUCE: (True,)},
    ),
    none(
        "ge_config.oo_level",
        Choice(("O1", "O3")),
        "O3",
        "a vendor's passes",
        odd={REDUCE: ("O1",)},
    ),
    missing(
        "ge_config.oo_constant_folding",
        BOOL,
        None,
        "decided by the compiler",
        odd={REDUCE: "any"},
    ),
    missing(
        "ge_config.oo_dead_code_elimination",
        BOOL,
        None,
        "decided by the compiler",
        odd={REDUCE: "any"},
    ),
    missing(
        "ge_config.export_compile_stat",
        Choice(("0", "1", "2")),
        "2",
        "counts of fusions",
        odd={REDUCE: ("1", "0")},
    ),
    none("ge_config.aicore_num", ANY, None, "cores of an NPU", odd={REDUCE: "any"}),
    none(
        "ge_config.optimization_switch",
        ANY,
        None,
        "a vendor's passes",
        odd={REDUCE: "any"},
    ),
    missing(
        "aclgraph_config.use_custom_pool",
        ANY,
        None,
        "memory of captures",
        flat="use_graph_pool",
    ),
)

# Groups that hold no row of their own yet exist.
EMPTY_GROUPS = ("npugraphex_config",)
# Assignment in these replaces, and any name is accepted.
OPEN_GROUPS = ("export", "aclgraph_config")
