//===- ScheduleOps.td - dispatches, kernels, the program ---*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_SCHEDULEOPS_TD
#define ANABRANCH_IR_SCHEDULEOPS_TD

include "AtenOps.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

//===----------------------------------------------------------------------===//
// Level "dispatch"
//===----------------------------------------------------------------------===//

def Anabranch_DispatchOp : Anabranch_Op<"dispatch",
    [IsolatedFromAbove, AttrSizedOperandSegments, SingleBlock]> {
  let summary = "tensor operators that become one kernel";
  let description = [{
    The region's arguments are `inputs`, then `indices`. It yields the results.
    Every result is dense and row-major. `resultDims` are the dynamic dimensions
    of the results, in order.

    ```mlir
    %r = anabranch.dispatch ins(%x, %n : tensor<?xf32>, index) ... -> tensor<?xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<Index>:$indices,
                       Variadic<Index>:$resultDims);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = [{
    (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`indices` `(` $indices^ `)`)?
    (`dims` `(` $resultDims^ `)`)? $body attr-dict (`->` type($results)^)?
  }];
}

//===----------------------------------------------------------------------===//
// Level "program"
//===----------------------------------------------------------------------===//

def Anabranch_BufferType : TypeDef<AnabranchDialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "memory of one tensor in the program";
}

def Anabranch_SlotAttr : Anabranch_Attr<"Slot", "slot"> {
  let summary = "a number that the size table holds at run time";
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Anabranch_RealSlotAttr : Anabranch_Attr<"RealSlot", "real_slot"> {
  let summary = "an f64 whose bits the size table holds at run time";
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}

// A size is an i64 known now, or #anabranch.slot<n>.
def Anabranch_SizeAttr : Attr<
    CPred<"::llvm::isa<::mlir::IntegerAttr, ::anabranch::ir::SlotAttr>($_self)">,
    "an integer or a slot"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}
def Anabranch_SizesAttr : TypedArrayAttrBase<Anabranch_SizeAttr, "sizes">;

class Anabranch_ProgramChild<string mnemonic, list<Trait> traits = []>
    : Anabranch_Op<mnemonic, traits>;

def Anabranch_ProgramOp : Anabranch_Op<"program",
    [IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "the buffers and command lists that the runtime executes";
  let description = [{
    Holds `anabranch.input`s, `anabranch.limit`s, `anabranch.buffer`s,
    `anabranch.stream`s and `anabranch.output`s, in this order. `slots` is the
    length of the size table; `sizesFunction` computes the slots that no input
    defines. A call begins when the events `awaits` of other programs are
    recorded. At its end it records the events `records`.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$slots,
                       OptionalAttr<FlatSymbolRefAttr>:$sizesFunction,
                       OptionalAttr<Anabranch_SizeAttr>:$arenaBytes,
                       OptionalAttr<Anabranch_SizeAttr>:$persistentBytes,
                       DefaultValuedAttr<I64Attr, "0">:$events,
                       OptionalAttr<StrArrayAttr>:$awaits,
                       OptionalAttr<StrArrayAttr>:$records);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `slots` $slots (`sizes` $sizesFunction^)? (`arena` $arenaBytes^)?
    (`persistent` $persistentBytes^)? $body attr-dict
  }];
  let hasVerifier = 1;
}

def Anabranch_InputOp : Anabranch_ProgramChild<"input", [HasParent<"ProgramOp">]> {
  let summary = "an argument of a call of the program";
  let description = [{
    Inputs are numbered in order. A tensor has `shape`; `defines` lists the
    dimensions that define their slot, the others are checked. A scalar fills
    `scalarSlot`.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$dtype,
                       Anabranch_SizesAttr:$shape,
                       OptionalAttr<Anabranch_SizesAttr>:$strides,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$defines,
                       OptionalAttr<I64Attr>:$scalarSlot, UnitAttr:$mutated);
  let assemblyFormat = [{
    $name $dtype $shape (`strides` $strides^)? (`scalar` $scalarSlot^)?
    (`mutated` $mutated^)? attr-dict
  }];
}

def Anabranch_LimitOp : Anabranch_ProgramChild<"limit", [HasParent<"ProgramOp">]> {
  let summary = "the values of a slot for which the program was made";
  let description = [{
    The runtime refuses a call in which the slot, which an input defines, is
    below `min` or above `max`.
  }];
  let arguments = (ins Anabranch_SizeAttr:$slot, I64Attr:$min, I64Attr:$max);
  let assemblyFormat = "$slot `from` $min `to` $max attr-dict";
}

def Anabranch_BufferOp : Anabranch_ProgramChild<"buffer", [HasParent<"ProgramOp">]> {
  let summary = "memory of one tensor";
  let description = [{
    `kind` is one of package::BufferKind: "input", "output", "arena",
    "persistent", "constant", "external". `index` numbers the inputs or outputs;
    `name` names a constant. `memory` numbers the bytes; buffers with one number
    share them (a reshape). `firstUse` and `lastUse` number commands in their
    order. Memory planning gives arena buffers their `offset`. Buffers of symbolic
    size overlap only if they have the same offset.
  }];
  let arguments = (ins StrAttr:$kind, I64Attr:$memory, StrAttr:$dtype,
                       Anabranch_SizesAttr:$shape,
                       OptionalAttr<Anabranch_SizesAttr>:$strides,
                       Anabranch_SizeAttr:$bytes,
                       OptionalAttr<I64Attr>:$index, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<I64Attr>:$firstUse, OptionalAttr<I64Attr>:$lastUse,
                       OptionalAttr<Anabranch_SizeAttr>:$offset);
  let results = (outs Anabranch_BufferType:$result);
  let assemblyFormat = [{
    $kind (`of` $index^)? (`named` $name^)? `memory` $memory $dtype $shape
    (`strides` $strides^)? `bytes` $bytes (`live` $firstUse^ `to` $lastUse)?
    (`at` $offset^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Anabranch_StreamOp : Anabranch_ProgramChild<"stream",
    [HasParent<"ProgramOp">, SingleBlock, NoTerminator]> {
  let summary = "an in-order list of commands";
  let description = [{
    `initialize` streams run when a package is loaded, over constants. Commands
    of theirs that depend on inputs run in the first call, and in calls that find
    one of these inputs changed.
  }];
  let arguments = (ins StrAttr:$name, DefaultValuedAttr<I64Attr, "0">:$priority,
                       UnitAttr:$initialize);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name (`initialize` $initialize^)? $body attr-dict
  }];
  let extraClassDeclaration = [{
    /// Visits the commands in order, those of a super kernel in its place.
    void forEachCommand(llvm::function_ref<void(mlir::Operation *)> visit);
  }];
}

def Anabranch_LaunchOp : Anabranch_ProgramChild<"launch", [AttrSizedOperandSegments]> {
  let summary = "runs every tile of a kernel, on at most `cores` workers at once";
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       Variadic<Anabranch_BufferType>:$reads,
                       Variadic<Anabranch_BufferType>:$writes,
                       Anabranch_SizesAttr:$sizes, OptionalAttr<I64Attr>:$cores);
  let assemblyFormat = [{
    $kernel (`reads` `(` $reads^ `)`)? (`writes` `(` $writes^ `)`)?
    `sizes` $sizes attr-dict
  }];
}

def Anabranch_OrderAttr : Anabranch_Attr<"Order", "order"> {
  let summary = "members of a super kernel that the user has ordered";
  let description = [{
    All tiles of the members `before` are done when one of `after` starts, even
    where they share no bytes. Members are numbered from 0.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$before,
                        ArrayRefParameter<"int64_t">:$after);
  let assemblyFormat = "`<` `[` $before `]` `,` `[` $after `]` `>`";
}

def Anabranch_SuperOp : Anabranch_ProgramChild<"super",
    [HasParent<"StreamOp">, SingleBlock, NoTerminator]> {
  let summary = "launches that are one command";
  let description = [{
    A tile of a member starts when earlier tiles are done that touch the same
    bytes, if one of the two writes them, and the tiles that `orders` names. To
    other commands the super kernel is one command. `streams` says how many
    streams its members are from.

    ```mlir
    anabranch.super "layer_0" streams 1 {
      anabranch.launch @norm reads(%x) writes(%0) sizes []
      anabranch.launch @mlp reads(%0) writes(%1) sizes []
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$streams,
                       OptionalAttr<TypedArrayAttrBase<Anabranch_OrderAttr,
                                                       "orders">>:$orders);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `streams` $streams (`orders` $orders^)? $body attr-dict";
  let hasVerifier = 1;
}

def Anabranch_CallOp : Anabranch_ProgramChild<"call", [AttrSizedOperandSegments]> {
  let summary = "runs an operator through PyTorch's dispatcher";
  let description = [{
    `arguments` are those of the schema, each named by `names`: literals as in
    `anabranch.aten`, `#anabranch.operand<i>` for `reads[i]`, and
    `#anabranch.slot<n>` for a symbolic integer. `wanted` says for each result of
    the operator which of `writes` receives it, or -1. `ordered` calls run in the
    order in which they are listed, whatever their streams are.
  }];
  let arguments = (ins StrAttr:$callee,
                       Variadic<Anabranch_BufferType>:$reads,
                       Variadic<Anabranch_BufferType>:$writes,
                       ArrayAttr:$names, ArrayAttr:$arguments,
                       DenseI64ArrayAttr:$wanted, UnitAttr:$ordered);
  let assemblyFormat = [{
    $callee (`ordered` $ordered^)? (`reads` `(` $reads^ `)`)? (`writes` `(` $writes^ `)`)?
    `arguments` $names $arguments `wanted` $wanted attr-dict
  }];
}

def Anabranch_CopyOp : Anabranch_ProgramChild<"copy"> {
  let summary = "copies between two buffers of one dtype and shape, either strided";
  let arguments = (ins Anabranch_BufferType:$source, Anabranch_BufferType:$destination);
  let assemblyFormat = "$source `to` $destination attr-dict";
}

def Anabranch_RecordOp : Anabranch_ProgramChild<"record"> {
  let summary = "marks an event once all earlier commands of the stream are done";
  let arguments = (ins I64Attr:$event);
  let assemblyFormat = "$event attr-dict";
}

def Anabranch_WaitOp : Anabranch_ProgramChild<"wait"> {
  let summary = "holds the stream back until an event is recorded";
  let arguments = (ins I64Attr:$event);
  let assemblyFormat = "$event attr-dict";
}

def Anabranch_OutputOp : Anabranch_ProgramChild<"output", [HasParent<"ProgramOp">]> {
  let summary = "one value that the program returns";
  let description = [{
    `kind` is one of package::OutputKind: "tensor" and "external" with a buffer,
    "alias" with the number of an input, "scalar" with a size, "none".
  }];
  let arguments = (ins StrAttr:$kind, Optional<Anabranch_BufferType>:$buffer,
                       OptionalAttr<I64Attr>:$input,
                       OptionalAttr<Anabranch_SizeAttr>:$scalar);
  let assemblyFormat = [{
    $kind ($buffer^)? (`input` $input^)? (`value` $scalar^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif
