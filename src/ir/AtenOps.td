//===- AtenOps.td - operators between capture and linalg ---*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_ATENOPS_TD
#define ANABRANCH_IR_ATENOPS_TD

include "AnabranchDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Anabranch_Op<string mnemonic, list<Trait> traits = []>
    : Op<AnabranchDialect, mnemonic, traits>;

def Anabranch_AtenOp : Anabranch_Op<"aten", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "any ATen operator, on ranked tensors";
  let description = [{
    `callee` is the operator and overload as PyTorch prints it without the
    namespace: "add.Tensor", "mm", "topk". Operators of another namespace keep
    it: "mylib::op.overload".

    `args` holds every argument of the schema by its name, defaults included:
    an operand is `#anabranch.operand<i>` (tensors, `index` values for symbolic
    sizes, and `f64` values for floats computed from them). A literal is an i64,
    f64, bool, string, unit (None), type (a dtype) or an array of these.

    `resultDims` gives every dynamic dimension of every result, in order, as
    `index` values, so that no lowering computes shapes.

    `unsignedOperands` and `unsignedResults` number the operands and results
    whose i8 means uint8.

    `ordered` calls (random numbers, in-place writes) keep their program order
    and are neither merged nor removed.

    ```mlir
    %r = anabranch.aten "add.Tensor"(%a, %b)
           {self = #anabranch.operand<0>, other = #anabranch.operand<1>, alpha = 1 : i64}
           : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, Variadic<AnyType>:$inputs,
                       Variadic<Index>:$resultDims, DictionaryAttr:$args,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$unsignedOperands,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$unsignedResults,
                       UnitAttr:$ordered);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $callee `(` $inputs `)` (`dims` `(` $resultDims^ `)`)? (`ordered` $ordered^)?
    $args attr-dict `:` functional-type($inputs, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The argument of this schema name, or null.
    ::mlir::Attribute getArg(::llvm::StringRef name);
    /// The operand that the argument of this name refers to, or null.
    ::mlir::Value getOperandArg(::llvm::StringRef name);
    /// The integer literal of this name, if it is one.
    std::optional<int64_t> getIntArg(::llvm::StringRef name);
    std::optional<double> getFloatArg(::llvm::StringRef name);
    std::optional<bool> getBoolArg(::llvm::StringRef name);
    std::optional<::llvm::StringRef> getStringArg(::llvm::StringRef name);
    /// A list of literal integers; none if an element is symbolic.
    std::optional<::llvm::SmallVector<int64_t>> getIntListArg(::llvm::StringRef name);
    /// The operands and null entries of a list of (optional) tensors.
    ::llvm::SmallVector<::mlir::Value> getOperandListArg(::llvm::StringRef name);
    /// A list of sizes: literals as attributes, symbolic ones as values.
    ::llvm::SmallVector<::mlir::OpFoldResult> getSizeListArg(::llvm::StringRef name);
    bool isNoneArg(::llvm::StringRef name);
    bool isUnsigned(::mlir::Value operand);
    bool isUnsignedResult(unsigned result);
    /// The sizes of result `i`: attributes where static, else from resultDims.
    ::llvm::SmallVector<::mlir::OpFoldResult> getResultSizes(unsigned i = 0);
  }];
}

def Anabranch_CheckOp : Anabranch_Op<"check", [MemoryEffects<[MemWrite]>]> {
  let summary = "fails the kernel with a status unless the condition holds";
  let description = [{
    Stands in the body of a linalg.generic. Nobody uses values that depend on a
    failed check, but the body must stay memory-safe (clamp the index). `status` is an anabranch_kernel_status (KernelABI.h).
  }];
  let arguments = (ins I1:$condition, I32Attr:$status);
  let assemblyFormat = "$condition `,` $status attr-dict";
}

def Anabranch_ByteDotOp : Anabranch_Op<"byte_dot",
    [Pure, AllTypesMatch<["sum", "weights", "result"]>]
    # ElementwiseMappable.traits> {
  let summary = "adds products of up to four bytes to a sum";
  let description = [{
    Stands in the body of a linalg.generic. Byte i, from the lowest one on, of
    the word `weights` multiplies the i-th of `bytes`; the products are added in
    32 bits. Bytes of the word that multiply nothing are zero. One of the two
    factors is unsigned: the bytes, unless `unsignedWeights` is set.

    ```mlir
    %s = anabranch.byte_dot %sum, %word, %a, %b, %c : i32, i8, i8, i8
    ```
  }];
  let arguments = (ins
      AnyTypeOf<[I32, VectorOf<[I32]>]>:$sum,
      AnyTypeOf<[I32, VectorOf<[I32]>]>:$weights,
      Variadic<AnyTypeOf<[I8, VectorOf<[I8]>]>>:$bytes,
      UnitAttr:$unsignedWeights);
  let results = (outs AnyTypeOf<[I32, VectorOf<[I32]>]>:$result);
  let assemblyFormat = "$sum `,` $weights `,` $bytes attr-dict `:` type($result) `,` type($bytes)";
  let builders = [OpBuilder<(ins "::mlir::Value":$sum, "::mlir::Value":$weights,
                                 "::mlir::ValueRange":$bytes,
                                 "bool":$unsignedWeights), [{
    build($_builder, $_state, sum.getType(), sum, weights, bytes,
          unsignedWeights);
  }]>];
  let hasVerifier = 1;
}

def Anabranch_ExpectOp : Anabranch_Op<"expect"> {
  let summary = "a promise of the graph about a size of an input";
  let description = [{
    `size` is a scalar argument of the function or a dimension of a tensor
    argument. It is the value `same` (inputs share a symbol), or lies from `min`
    to `max`. The runtime checks it before a call, so lowerings and kernels may
    rely on it.

    ```mlir
    anabranch.expect %dim_of_y is %dim_of_x
    anabranch.expect %dim_of_x from 2 to 4096
    ```
  }];
  let arguments = (ins Index:$size, Optional<Index>:$same,
                       OptionalAttr<I64Attr>:$min, OptionalAttr<I64Attr>:$max);
  let assemblyFormat = [{
    $size (`is` $same^)? (`from` $min^)? (`to` $max^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Anabranch_ScatterOp : Anabranch_Op<"scatter", [Pure]> {
  let summary = "writes or accumulates values at computed positions of a tensor";
  let description = [{
    For every point p of the iteration space (the shape of `updates`), in
    row-major order: result[index(p)] = combine(result[index(p)], updates[p]),
    starting from `init`. The region gets p (`rank(updates)` index values), the
    current element and the update, and yields the position (`rank(init)` index
    values) and the new element. It may read other tensors with tensor.extract
    and must check indices with `anabranch.check`.
  }];
  let arguments = (ins AnyRankedTensor:$init, AnyRankedTensor:$updates);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $updates `into` $init $body attr-dict `:` type($updates) `into` type($init) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Anabranch_ScanOp : Anabranch_Op<"scan", [Pure]> {
  let summary = "running reduction along one dimension (cumsum, cumprod, ...)";
  let description = [{
    result[..., i, ...] = combine(result[..., i-1, ...], input[..., i, ...]);
    the first element is combine(`init`, input[..., 0, ...]). The region gets
    (carried, element) of the result's element type and yields the new carried
    value. Input, `init` and result have one element type; the lowering converts
    before the scan. Fusion adds only pointwise operators around it.
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyType:$init, I64Attr:$dimension);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $input `,` $init `along` $dimension $body attr-dict `:` type($input) `,` type($init) `->` type($result)
  }];
}

def Anabranch_AttentionOp : Anabranch_Op<"attention", [Pure, AttrSizedOperandSegments]> {
  let summary = "softmax(scale * query * key^T + mask) * value";
  let description = [{
    query [B..., L, E], key [B..., S, E], value [B..., S, Ev], and an optional
    additive or boolean `mask` that broadcasts to [B..., L, S]. `causal` lets row
    i see columns 0..i. Key and value may have fewer heads (dimension -3) than
    the query when `grouped` is set. A row that sees no key gives zero, whether
    the mask is boolean or additive, as in PyTorch's kernels.
    Scores and sums are f32 (f64 for f64).
  }];
  let arguments = (ins AnyRankedTensor:$query, AnyRankedTensor:$key,
                       AnyRankedTensor:$value, Optional<AnyRankedTensor>:$mask,
                       Variadic<Index>:$resultDims,
                       F64Attr:$scale, UnitAttr:$causal, UnitAttr:$grouped);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? (`dims` `(` $resultDims^ `)`)?
    attr-dict `:` functional-type(operands, $result)
  }];
}

def Anabranch_FftOp : Anabranch_Op<"fft", [Pure, AttrSizedOperandSegments]> {
  let summary = "discrete Fourier transform along one dimension";
  let description = [{
    The parts of complex numbers are two tensors of f32 or f64. A complex result
    is one tensor: its first dimension is two, for the real and the imaginary
    parts. Without `imaginary` the operand is real, and the result is the first
    n / 2 + 1 elements of its transform. With `toReal` the operand is such a
    half, and the result the real tensor whose transform it begins.

    `inverse` transforms have the other sign; those to real ones always have.
    `norm` is an anabranch_fft_norm (KernelABI.h). `resultDims` are the dynamic
    dimensions of the result.

    ```mlir
    %z = anabranch.fft %x along 1 {norm = 0 : i64}
           : (tensor<4x8xf32>) -> tensor<2x4x5xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$real, Optional<AnyRankedTensor>:$imaginary,
                       Variadic<Index>:$resultDims, I64Attr:$dimension, I64Attr:$norm,
                       UnitAttr:$inverse, UnitAttr:$toReal);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $real (`,` $imaginary^)? `along` $dimension (`dims` `(` $resultDims^ `)`)?
    attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

def Anabranch_ReinterpretOp : Anabranch_Op<"reinterpret", [Pure]> {
  let summary = "complex numbers as pairs of real ones, or pairs as complex numbers";
  let description = [{
    The same bytes of a contiguous tensor. Pairs are along one more dimension,
    the last. No kernel computes it: it is a reshape of a whole stored tensor.

    ```mlir
    %p = anabranch.reinterpret %z : tensor<4xcomplex<f32>> to tensor<4x2xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
}

def Anabranch_YieldOp : Anabranch_Op<"yield", [Pure, ReturnLike, Terminator]> {
  let summary = "ends a region of this dialect";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

#endif
