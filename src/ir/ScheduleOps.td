//===- ScheduleOps.td - dispatches, kernels, the program --------*- tablegen -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IR_SCHEDULEOPS_TD
#define ANABRANCH_IR_SCHEDULEOPS_TD

include "AtenOps.td"
include "mlir/IR/SymbolInterfaces.td"

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

#endif
