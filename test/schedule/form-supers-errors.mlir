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

// -----

// CHECK: m.py:5:0: error: super_kernel("p"): the option strict-scope-check=abort asks for one super kernel, but its sizes are not known when it is compiled. Compile with dynamic=False, or name the sizes that come with set_gears
#p = loc(fused<#anabranch.super<"p", 0, "abort">>["m.py":5:0])
anabranch.program "dynamic" slots 1 {
  anabranch.input "in" "f32" [#anabranch.slot<0>] {defines = array<i64: 0>}
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [#anabranch.slot<0>] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [#anabranch.slot<0>] loc(#p)
    anabranch.launch @b reads(%a) writes(%b) sizes [#anabranch.slot<0>] loc(#p)
  }
}

// -----

// Without the strict option, launches of symbolic sizes stay launches.
// CHECK: anabranch.program "launches"
// CHECK-NOT: anabranch.super "
// CHECK: anabranch.launch @b
#p = loc(fused<#anabranch.super<"p", 0, "">>["m.py":6:0])
anabranch.program "launches" slots 1 {
  anabranch.input "in" "f32" [#anabranch.slot<0>] {defines = array<i64: 0>}
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [#anabranch.slot<0>] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [#anabranch.slot<0>] loc(#p)
    anabranch.launch @b reads(%a) writes(%b) sizes [#anabranch.slot<0>] loc(#p)
  }
}
