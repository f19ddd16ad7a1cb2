//===- ScopeOps.td - streams in the graph ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_SCOPEOPS_TD
#define ANABRANCH_IR_SCOPEOPS_TD

include "AtenOps.td"

def Anabranch_ScopeAttr : Anabranch_Attr<"Scope", "scope"> {
  let summary = "the stream of an operator, and how many cores it may take";
  let description = [{
    Stands as `anabranch.scope` on operators that do work. An empty `tag` is the
    default stream, as is the absence of the attribute. `cores` 0: no limit.
  }];
  let parameters = (ins StringRefParameter<>:$tag, "int64_t":$priority,
                        "int64_t":$cores);
  let assemblyFormat = "`<` $tag `,` $priority `,` $cores `>`";
}

def Anabranch_SuperAttr : Anabranch_Attr<"Super", "super"> {
  let summary = "the super kernel of an operator";
  let description = [{
    Stands in the location of an operator, where passes that compare operators do
    not see it. So a super kernel has the same kernels as the graph without it. An
    empty `name` excludes the operator from all super kernels. With `fusion`
    other than 0 streams stay apart inside; `strict` is empty, "bypass" or "abort".

    ```mlir
    loc(fused<#anabranch.super<"layer", 0, "">>["m.py":12:0])
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$fusion,
                        StringRefParameter<>:$strict);
  let assemblyFormat = "`<` $name `,` $fusion `,` $strict `>`";
}

def Anabranch_FenceOp : Anabranch_Op<"fence", [AttrSizedOperandSegments]> {
  let summary = "a point in the order of a stream";
  let description = [{
    Earlier work of the same stream comes before the point, and later work begins
    after it. The point is reached when the tensors `after` have been computed and
    the event `awaits` has been recorded; then the fence records the event
    `records`. The results are `passes`; their readers on other streams begin
    after the point too.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$passes,
                       Variadic<AnyRankedTensor>:$after,
                       OptionalAttr<StrAttr>:$awaits,
                       OptionalAttr<StrAttr>:$records);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    (`passes` `(` $passes^ `:` type($passes) `)`)?
    (`after` `(` $after^ `:` type($after) `)`)? attr-dict
    (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

#endif
