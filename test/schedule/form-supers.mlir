// Launches of one scope become one command, a super kernel.
// RUN: anabranch-opt %s --split-input-file --pass-pipeline="builtin.module(anabranch-form-supers{workers=2})" | FileCheck %s
// RUN: anabranch-opt %s --split-input-file --pass-pipeline="builtin.module(anabranch-form-supers{workers=2 find=true})" | FileCheck %s --check-prefix=AUTO

// A call ends the first part. Commands between members come before the super kernel
// if they depend on no member, else after it. The second part gets the next number.
// A single launch stays a launch.
// CHECK-LABEL: anabranch.program "parts"
// CHECK: anabranch.launch @free
// CHECK-NEXT: anabranch.super "layer_0" streams 1 {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.launch @reader
// CHECK-NEXT: anabranch.call "sort"
// CHECK-NEXT: anabranch.super "layer_1" streams 1 {
// CHECK-NEXT: anabranch.launch @d
// CHECK-NEXT: anabranch.launch @e
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.launch @f
// CHECK-NEXT: }
// CHECK: anabranch.breaks = [{bypassed = false, location = "m.py:4", reason = "aten::sort runs through PyTorch", scope = "layer"}]
// AUTO-LABEL: anabranch.program "parts"
// AUTO: anabranch.launch @free
// AUTO-NEXT: anabranch.super "layer_0"
#layer = loc(fused<#anabranch.super<"layer", 0, "">>["m.py":3:0])
#sort = loc(fused<#anabranch.super<"layer", 0, "">>["m.py":4:0])
#out = loc(fused<#anabranch.super<"", 0, "">>["m.py":5:0])
#mixed = loc(fused[#layer, "m.py":6:0])
#left = loc(fused[#layer, #out])
anabranch.program "parts" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  %d = anabranch.buffer "arena" memory 4 "f32" [4] bytes 16 : i64
  %e = anabranch.buffer "arena" memory 5 "f32" [4] bytes 16 : i64
  %f = anabranch.buffer "arena" memory 6 "f32" [4] bytes 16 : i64
  %g = anabranch.buffer "arena" memory 7 "f32" [4] bytes 16 : i64
  %x = anabranch.buffer "external" memory 8 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [] loc(#layer)
    anabranch.launch @free reads(%in) writes(%f) sizes []
    anabranch.launch @b reads(%a) writes(%b) sizes [] loc(#mixed)
    anabranch.launch @reader reads(%a) writes(%g) sizes []
    anabranch.launch @c reads(%b) writes(%c) sizes [] loc(#layer)
    anabranch.call "sort" reads(%c) writes(%x) arguments ["self"] [#anabranch.operand<0>] wanted [0] loc(#sort)
    anabranch.launch @d reads(%x) writes(%d) sizes [] loc(#layer)
    anabranch.launch @e reads(%d) writes(%e) sizes [] loc(#layer)
    anabranch.launch @f reads(%e) writes(%a) sizes [] loc(#left)
  }
}

// -----

// Another scope ends a super kernel. A launch that overwrites a member's operand stays
// after it. A member that reads a later result begins another super kernel.
// CHECK-LABEL: anabranch.program "scopes"
// CHECK: anabranch.super "p_0" streams 1 {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.launch @over
// CHECK-NEXT: anabranch.super "p_1" streams 1 {
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: anabranch.launch @d
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.super "q_0" streams 1 {
// CHECK-NEXT: anabranch.launch @e
// CHECK-NEXT: anabranch.launch @f
// CHECK-NEXT: }
// CHECK: reason = "what stands between is outside of the scope", scope = "p"
#p = loc(fused<#anabranch.super<"p", 0, "abort">>["m.py":3:0])
#q = loc(fused<#anabranch.super<"q", 0, "">>["m.py":4:0])
anabranch.program "scopes" slots 0 {
  anabranch.input "in" "f32" [4] mutated
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [] loc(#p)
    anabranch.launch @over writes(%in) sizes []
    anabranch.launch @b reads(%a) writes(%b) sizes [] loc(#p)
    anabranch.launch @c reads(%in) writes(%c) sizes [] loc(#p)
    anabranch.launch @d reads(%c) writes(%a) sizes [] loc(#p)
    anabranch.launch @e reads(%a) writes(%b) sizes [] loc(#q)
    anabranch.launch @f reads(%b) writes(%c) sizes [] loc(#q)
  }
}

// -----

// A scope in mode "bypass" has launches if it cannot be one super kernel: here a wait
// for a much later command stands between.
// CHECK-LABEL: anabranch.program "bypass"
// CHECK: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: anabranch.wait 0
// CHECK-NEXT: anabranch.launch @c
// CHECK: bypassed = true, location = "m.py:7", reason = "a wait for another stream stands between", scope = "r"
#r = loc(fused<#anabranch.super<"r", 0, "bypass">>["m.py":7:0])
anabranch.program "bypass" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  %long = anabranch.buffer "arena" memory 4 "f32" [250000] bytes 1000000 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [] loc(#r)
    anabranch.launch @b reads(%a) writes(%b) sizes [] loc(#r)
    anabranch.wait 0 loc(#r)
    anabranch.launch @c reads(%b) writes(%c) sizes [] loc(#r)
  }
  anabranch.stream "x" {
    anabranch.launch @slow reads(%in) writes(%long) sizes []
    anabranch.record 0
  }
} {events = 1 : i64}

// -----

// The whole super kernel may wait for a command that comes soon, and for any command
// if the scope is strict. Commands after such a wait move with it.
// CHECK-LABEL: anabranch.program "early"
// CHECK: anabranch.wait 0
// CHECK-NEXT: anabranch.launch @free
// CHECK-NEXT: anabranch.super "soon_0" streams 1 {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.wait 1
// CHECK-NEXT: anabranch.super "one_0" streams 1 {
// CHECK-NEXT: anabranch.launch @c
// CHECK-NEXT: anabranch.launch @d
// CHECK-NEXT: }
// CHECK-NEXT: anabranch.wait 2
// CHECK-NEXT: anabranch.launch @e
#soon = loc(fused<#anabranch.super<"soon", 0, "">>["m.py":7:0])
#one = loc(fused<#anabranch.super<"one", 0, "abort">>["m.py":8:0])
anabranch.program "early" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  %f = anabranch.buffer "arena" memory 4 "f32" [4] bytes 16 : i64
  %x = anabranch.buffer "arena" memory 5 "f32" [4] bytes 16 : i64
  %long = anabranch.buffer "arena" memory 6 "f32" [250000] bytes 1000000 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [] loc(#soon)
    anabranch.wait 0 loc(#soon)
    anabranch.launch @free reads(%x) writes(%f) sizes []
    anabranch.launch @b reads(%a, %x) writes(%b) sizes [] loc(#soon)
    anabranch.launch @c reads(%b) writes(%c) sizes [] loc(#one)
    anabranch.wait 1 loc(#one)
    anabranch.launch @d reads(%long, %c) writes(%a) sizes [] loc(#one)
    anabranch.wait 2
    anabranch.launch @e reads(%a) writes(%b) sizes []
  }
  anabranch.stream "x" {
    anabranch.launch @soon reads(%in) writes(%x) sizes []
    anabranch.record 0
    anabranch.launch @slow reads(%in) writes(%long) sizes []
    anabranch.record 1
    anabranch.record 2
  }
} {events = 3 : i64}

// -----

// The model has no marks.
// CHECK-LABEL: anabranch.program "free"
// CHECK-NOT: anabranch.super
// AUTO-LABEL: anabranch.program "free"
// AUTO: anabranch.super "auto_0" streams 1 {
// AUTO-NEXT: anabranch.launch @a
// AUTO-NEXT: anabranch.launch @b
// AUTO-NEXT: }
// AUTO-NEXT: anabranch.launch @out
#none = loc(fused<#anabranch.super<"", 0, "">>["m.py":8:0])
anabranch.program "free" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes []
    anabranch.launch @b reads(%a) writes(%b) sizes []
    anabranch.launch @out reads(%b) writes(%c) sizes [] loc(#none)
  }
}

// -----

// Long launches stay launches: ending each takes less than a hundredth of its time.
// AUTO-LABEL: anabranch.program "long"
// AUTO-NOT: anabranch.super
// AUTO-LABEL: func.func @twice
anabranch.program "long" slots 0 {
  anabranch.input "in" "f32" [25000000]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [25000000] bytes 100000000 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [25000000] bytes 100000000 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [25000000] bytes 100000000 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes []
    anabranch.launch @b reads(%a) writes(%b) sizes []
  }
}

// -----

// The kernels of members have a function for the footprint of a tile.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: anabranch.footprint
// CHECK-LABEL: func.func @alone
// CHECK-NOT: anabranch.footprint
// CHECK: anabranch.program "kernels"
#here = loc(fused<#anabranch.super<"layer", 0, "">>["m.py":3:0])
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %x : tensor<4xf32>
}
func.func @alone(%x: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %x : tensor<4xf32>
}
anabranch.program "kernels" slots 0 {
  anabranch.input "in" "f32" [4]
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 : i64
  %c = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @twice reads(%in) writes(%a) sizes [] loc(#here)
    anabranch.launch @twice reads(%a) writes(%b) sizes [] loc(#here)
    anabranch.launch @alone reads(%b) writes(%c) sizes []
  }
}

// -----

// Launches of symbolic sizes are members as any other: calls bind the sizes.
// CHECK-LABEL: anabranch.program "symbolic"
// CHECK: anabranch.super "p_0" streams 1 {
// CHECK-NEXT: anabranch.launch @a
// CHECK-NEXT: anabranch.launch @b
// CHECK-NEXT: }
#p = loc(fused<#anabranch.super<"p", 0, "abort">>["m.py":5:0])
anabranch.program "symbolic" slots 1 {
  anabranch.input "in" "f32" [#anabranch.slot<0>] {defines = array<i64: 0>}
  %in = anabranch.buffer "input" of 0 memory 0 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %a = anabranch.buffer "arena" memory 1 "f32" [#anabranch.slot<0>] bytes 16 : i64
  %b = anabranch.buffer "arena" memory 2 "f32" [#anabranch.slot<0>] bytes 16 : i64
  anabranch.stream "main" {
    anabranch.launch @a reads(%in) writes(%a) sizes [#anabranch.slot<0>] loc(#p)
    anabranch.launch @b reads(%a) writes(%b) sizes [#anabranch.slot<0>] loc(#p)
  }
}
