"""The options, one row each. Everything else about an option is made from this table.

A row's `status` says what the option does on this host:

    works    it does what `here` says;
    same     all of its values have the same visible effect: it is checked, and a value
             other than the default gives a warning once;
    none     it has a meaning only on an NPU: it is checked, gives a warning once, and is
             ignored;
    missing  it is not supported yet: it is checked, and a value other than the default
             gives a warning once and is ignored.

`flat` is its name in `torch.compile(options=...)`; a `-` before the name negates the
value. `odd` says which values do not fit a mode ("any": each assigned value). `promise`
is what the user promises by switching the option on; a warning says it once."""

from __future__ import annotations

import dataclasses
from typing import Any

from .kinds import (
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
    promise: str = ""


def works(
    path: str, kind: Kind, default: Any, grade: str, here: str, **more: Any
) -> Row:
    return Row(path, kind, default, grade, "works", here, **more)


def none(path: str, kind: Kind, default: Any, here: str, **more: Any) -> Row:
    return Row(path, kind, default, "C", "none", here, **more)


def same(path: str, kind: Kind, default: Any, here: str, **more: Any) -> Row:
    return Row(path, kind, default, "B", "same", here, **more)


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
        "called with the ATen graph before all other passes",
        flat="post_grad_custom_pre_pass",
    ),
    works(
        "post_grad_custom_post_pass",
        CALLABLE,
        None,
        "B",
        "called with the ATen graph after all other passes",
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
    works("debug.graph_dump.path", NewPath(), None, "B", "the folder of the files"),
    works(
        "debug.data_dump.type",
        Choice(("npy",)),
        None,
        "B",
        "PyTorch runs the graph and saves the operands and results of each operator",
    ),
    works("debug.data_dump.path", NewPath(), None, "B", "the folder of the files"),
    works(
        "debug.data_dump.filter",
        ANY,
        None,
        "B",
        "called with each node; a node for which it returns None is left out",
    ),
    works(
        "debug.fx_summary.type",
        Choice(("csv",)),
        None,
        "B",
        "writes a file with counts of operators, in `max-autotune`",
        odd={REDUCE: ("csv",)},
    ),
    works(
        "debug.fx_summary.skip_compile",
        BOOL,
        True,
        "B",
        "PyTorch runs the graph whose operators were counted",
    ),
    works(
        "debug.run_eagerly",
        BOOL,
        False,
        "B",
        "PyTorch runs the graph instead of the compiled program; in npugraph_ex: no capture",
        flat="force_eager",
    ),
    works(
        "debug.deadlock_check",
        BOOL,
        False,
        "B",
        "finds pairs of collectives on different streams that together need"
        " more cores than there are, and writes three traces; for static shapes",
    ),
    same(
        "debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
        BOOL,
        False,
        "the compiler plans memory",
        flat="-inplace_pass",
        odd={TUNE: (True,)},
    ),
    same(
        "debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
        BOOL,
        False,
        "the compiler plans memory",
        flat="-input_inplace_pass",
        odd={TUNE: (True,)},
    ),
    same(
        "debug.aclgraph.disable_mempool_reuse_in_same_fx",
        BOOL,
        False,
        "graphs share no memory",
        flat="-reuse_graph_pool_in_same_fx",
    ),
    works(
        "debug.aclgraph.enable_output_clone",
        BOOL,
        False,
        "B",
        "results have memory of their own; with False the next run with the"
        " same sizes overwrites them, in the capture modes",
        flat="clone_output",
    ),
    works(
        "debug.aclgraph.static_capture_size_limit",
        IntRange(1),
        64,
        "B",
        "the most captures of a graph; then a warning, and the counters stop."
        " The compiled program goes on, with results in memory of their own",
        flat="capture_limit",
    ),
    works(
        "debug.aclgraph.clone_input",
        BOOL,
        True,
        "B",
        "inputs are read in place; with False a capture reads the inputs of"
        " its first call, to which later calls copy theirs, in the capture"
        " modes",
        flat="clone_input",
        odd={TUNE: (False,)},
    ),
    works(
        "debug.aclgraph.remove_cat_ops",
        BOOL,
        True,
        "B",
        "dumps of the capture modes show joins as buffers that the parts are"
        " written to; the compiler does so with either value, where it can",
        flat="remove_cat_ops",
    ),
    # aoe_config
    none("aoe_config.aoe_mode", Choice(("2",)), None, "kernel tuning"),
    none("aoe_config.work_path", Directory(), "./", "kernel tuning"),
    none("aoe_config.aoe_config_file", File(), None, "kernel tuning"),
    # export
    works("export.export_mode", BOOL, False, "B", "set by `dynamo_export`"),
    works("export.export_path_dir", Directory(), "./", "B", "set by `dynamo_export`"),
    works("export.export_name", ANY, None, "B", "set by `dynamo_export`"),
    missing("export.weight_name", ANY, None, "names of weights in exports"),
    missing("export.inputs_name", ANY, None, "names of inputs in exports"),
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
    works(
        "dump_config.enable_dump",
        BOOL,
        False,
        "B",
        "PyTorch runs the graph and saves tensors; in the capture modes one"
        " file for each result",
        flat="dump_tensor_data",
        odd={REDUCE: (True,)},
    ),
    works(
        "dump_config.dump_path",
        Directory(),
        "./",
        "B",
        "the folder of the files",
        flat="data_dump_dir",
    ),
    works(
        "dump_config.dump_mode",
        Choice(("input", "output", "all")),
        "all",
        "B",
        "whether operands, results or both are saved, in `max-autotune`",
    ),
    none("dump_config.quant_dumpable", BOOL, False, "saves inputs before quantisation"),
    works(
        "dump_config.dump_step",
        Steps(),
        "",
        "B",
        "which runs save tensors, in `max-autotune`",
    ),
    works(
        "dump_config.dump_layer",
        Layers(),
        "",
        "B",
        "the nodes to save, by their names in dumped graphs, besides those in"
        " `data_dump` scopes; none given: all nodes; in `max-autotune`",
    ),
    works(
        "dump_config.dump_data",
        Choice(("tensor", "stats")),
        "tensor",
        "B",
        "values, or a table of statistics, in `max-autotune`",
    ),
    none("dump_config.dump_config_path", JsonFile(), None, "a vendor's description"),
    works(
        "dump_config.data_dump_stage",
        Choice(("original", "optimized")),
        "optimized",
        "B",
        "before or after custom passes and patterns, in the capture modes",
        flat="data_dump_stage",
    ),
    works(
        "fusion_config.fusion_switch_file",
        File(parse=True),
        None,
        "B",
        "switches the built-in fusions on and off, by name or ALL; warns of names that this host does not have",
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
        "parameters and buffers become constants of the compiled graph; warns once that"
        " they must stay",
        flat="frozen_parameter",
        promise="the memory and the values of parameters and buffers must not change"
        " after the compilation",
    ),
    same(
        "experimental_config.static_model_ops_lower_limit",
        IntRange(-1),
        None,
        "decided by the compiler",
        odd={REDUCE: "any"},
    ),
    none(
        "experimental_config.jit_compile",
        Choice(("auto",)),
        "auto",
        "kernels are always compiled",
    ),
    works(
        "experimental_config.npu_fx_pass",
        BOOL,
        False,
        "B",
        "Inductor's joint passes go over the graph first",
    ),
    works(
        "experimental_config.aot_config_enable_joint_graph",
        BOOL,
        False,
        "B",
        "forward and backward are one graph, which runs in the forward pass",
    ),
    works(
        "experimental_config.aot_config_output_loss_index",
        ANY,
        0,
        "B",
        "the output that is the loss of a joint graph; the others give no gradients",
    ),
    same(
        "experimental_config.topology_sorting_strategy",
        Choice(("BFS", "DFS", "RDFS", "StableRDFS")),
        "DFS",
        "the program's order is kept",
        odd={REDUCE: ("BFS", "RDFS", "StableRDFS")},
    ),
    works(
        "experimental_config.enable_ref_data",
        BOOL,
        False,
        "B",
        "dumps and logs show inputs that a graph writes to as RefData; the"
        " graph writes them in place with either value",
        odd={REDUCE: "any"},
    ),
    works(
        "experimental_config.enable_view_optimize",
        BOOL,
        True,
        "B",
        "dumps show a transposed contiguous value as a strided view after optimisation;"
        " compiled code has no transposes with either value",
        odd={REDUCE: "any"},
    ),
    works(
        "experimental_config.remove_noop_ops",
        BOOL,
        True,
        "B",
        "operators that return their argument unchanged leave the graph; with"
        " False they stay in dumps, and the compiler removes them later",
        flat="remove_noop_ops",
    ),
    none(
        "experimental_config.tiling_schedule_optimize",
        BOOL,
        False,
        "tiling on the device",
        odd={REDUCE: (True,)},
    ),
    works(
        "experimental_config.pattern_fusion_pass",
        BOOL,
        True,
        "B",
        "built-in fusions are applied, patterns of `register_replacement` replaced; the compiler fuses beyond them",
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
        "the folder of the records; None: the current folder",
        odd={TUNE: "any"},
    ),
    works(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        IntList(),
        None,
        "B",
        "with `run_eagerly`: values of the symbolic input to compile for",
        flat="_vllm_aclnn_static_kernel_sym_range",
    ),
    works(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index",
        IntRange(0),
        0,
        "B",
        "with `run_eagerly`: the number of that symbolic input",
        flat="_vllm_aclnn_static_kernel_sym_index",
    ),
    works(
        "experimental_config.aclgraph._super_kernel_optimize",
        BOOL,
        False,
        "B",
        "super kernels where the compiler sees a gain, in the modes other than `max-autotune`",
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
    same(
        "ge_config.oo_constant_folding",
        BOOL,
        None,
        "decided by the compiler",
        odd={REDUCE: "any"},
    ),
    same(
        "ge_config.oo_dead_code_elimination",
        BOOL,
        None,
        "decided by the compiler",
        odd={REDUCE: "any"},
    ),
    works(
        "ge_config.export_compile_stat",
        Choice(("0", "1", "2")),
        "2",
        "B",
        "when `fusion_result.json` is written, with counts of the built-in"
        " fusions: never, at exit, after each graph. Without fusions and in"
        " the capture modes it is not written",
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
    same(
        "aclgraph_config.use_custom_pool",
        ANY,
        None,
        "graphs share no memory; a value that is no handle of a pool is an error",
        flat="use_graph_pool",
    ),
)

# Groups that hold no row of their own yet exist.
EMPTY_GROUPS = ("npugraphex_config",)
# Assignment in these replaces, and any name is accepted.
OPEN_GROUPS = ("export", "aclgraph_config")
