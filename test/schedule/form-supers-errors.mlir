// Requests of a strict scope that the compiler must refuse.
// RUN: not anabranch-opt %s --split-input-file --anabranch-form-supers 2>&1 | FileCheck %s

// CHECK: m.py:4:0: error: super_kernel("p"): the option strict-scope-check=abort asks for one super kernel, but aten::sort runs through PyTorch
#p = loc(fused<#anabranch.super<"p", 0, "abort">>["m.py":4:0])
anabranch.program "abort" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %x = anabranch.buffer "external" memory 1 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.call "sort" reads(%in) writes(%x) arguments ["self"] [#anabranch.operand<0>] wanted [0] loc(#p)
  }
}
