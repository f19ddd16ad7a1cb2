// Places of buffers in the arena.
// RUN: anabranch-opt %s --split-input-file --anabranch-plan-memory \
// RUN:   --anabranch-verify-program | FileCheck %s

// The largest buffer comes first. Buffers that live at other times share its bytes.
// A memory counts once, whatever shapes it has.
// CHECK-LABEL: anabranch.program "static"
// CHECK-SAME: arena 320
// CHECK: memory 0 "f32" [16] {{.*}} live 0 to 1 at 256
// CHECK: memory 1 "f32" [64] {{.*}} live 1 to 2 at 0
// CHECK: memory 1 "f32" [8, 8] {{.*}} live 1 to 2 at 0
// CHECK: memory 2 "f32" [16] {{.*}} live 2 to 3 at 256
// CHECK: memory 3 "f32" [16] {{.*}} live 3 to 4 at 0
module {
func.func @up(%a: tensor<16xf32>) -> tensor<64xf32> attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<64xf32>
  return %e : tensor<64xf32>
}
func.func @down(%a: tensor<8x8xf32>) -> tensor<16xf32> attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<16xf32>
  return %e : tensor<16xf32>
}
func.func @same(%a: tensor<16xf32>) -> tensor<16xf32> attributes {anabranch.kernel} {
  return %a : tensor<16xf32>
}
anabranch.program "static" slots 0 {
  anabranch.input "x" "f32" [16]
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [16] bytes 64
  %0 = anabranch.buffer "arena" memory 0 "f32" [16] bytes 64
  %1 = anabranch.buffer "arena" memory 1 "f32" [64] bytes 256
  %2 = anabranch.buffer "arena" memory 1 "f32" [8, 8] bytes 256
  %3 = anabranch.buffer "arena" memory 2 "f32" [16] bytes 64
  %4 = anabranch.buffer "arena" memory 3 "f32" [16] bytes 64
  %y = anabranch.buffer "output" of 0 memory 8 "f32" [16] bytes 64
  anabranch.stream "main" {
    anabranch.launch @same reads(%x) writes(%0) sizes []
    anabranch.launch @up reads(%0) writes(%1) sizes []
    anabranch.launch @down reads(%2) writes(%3) sizes []
    anabranch.launch @same reads(%3) writes(%4) sizes []
    anabranch.launch @same reads(%4) writes(%y) sizes []
  }
  anabranch.output "tensor" %y
}
}

// -----

// Buffers of symbolic size come after those of known size, in regions of the size
// of their largest buffer. Persistent buffers share no bytes.
// CHECK-LABEL: anabranch.program "dynamic"
// CHECK-SAME: sizes @anabranch_sizes arena #anabranch.slot<{{[0-9]+}}> persistent 128
// CHECK: "persistent" memory 5 {{.*}} at 0 : i64
// CHECK: "persistent" memory 6 {{.*}} at 64 : i64
// CHECK: memory 0 "f32" [#anabranch.slot<0>] {{.*}} at 64 : i64
// CHECK: memory 1 "f32" [#anabranch.slot<0>] {{.*}} at #anabranch.slot<[[B:[0-9]+]]>
// CHECK: memory 2 "f32" [#anabranch.slot<0>] {{.*}} at 64 : i64
// CHECK: memory 3 "f32" [4] {{.*}} at 0 : i64
module {
func.func @anabranch_sizes(%slots: !llvm.ptr) {
  return
}
func.func @k(%a: tensor<?xf32>) -> tensor<?xf32> attributes {anabranch.kernel} {
  return %a : tensor<?xf32>
}
func.func @sum(%a: tensor<?xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func @fill() -> tensor<4xf32> attributes {anabranch.kernel} {
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}
func.func @last(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %a : tensor<4xf32>
}
anabranch.program "dynamic" slots 2 sizes @anabranch_sizes {
  anabranch.input "x" "f32" [#anabranch.slot<0>] {defines = array<i64: 0>}
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %p = anabranch.buffer "persistent" memory 5 "f32" [4] bytes 16
  %q = anabranch.buffer "persistent" memory 6 "f32" [4] bytes 16
  %0 = anabranch.buffer "arena" memory 0 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %1 = anabranch.buffer "arena" memory 1 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %2 = anabranch.buffer "arena" memory 2 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %3 = anabranch.buffer "arena" memory 3 "f32" [4] bytes 16
  %y = anabranch.buffer "output" of 0 memory 8 "f32" [4] bytes 16
  anabranch.stream "load" initialize {
    anabranch.launch @fill writes(%p) sizes []
    anabranch.launch @fill writes(%q) sizes []
  }
  anabranch.stream "main" {
    anabranch.launch @k reads(%x) writes(%0) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
    anabranch.launch @k reads(%0) writes(%1) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
    anabranch.launch @k reads(%1) writes(%2) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
    anabranch.launch @sum reads(%2) writes(%3) sizes [#anabranch.slot<0>]
    anabranch.launch @last reads(%3, %p, %q) writes(%y) sizes []
  }
  anabranch.output "tensor" %y
}
}

// -----

// Buffers of two streams share bytes only where an event lies between their
// uses: @2 is written after the last read of @0; @1 may live at that time.
// CHECK-LABEL: anabranch.program "streams"
// CHECK: memory 0 "f32" [16] {{.*}} at [[A:[0-9]+]] : i64
// CHECK: memory 1 "f32" [16] {{.*}} at [[B:[0-9]+]] : i64
// CHECK: memory 2 "f32" [16] {{.*}} at [[A]] : i64
module {
func.func @same(%a: tensor<16xf32>) -> tensor<16xf32> attributes {anabranch.kernel} {
  return %a : tensor<16xf32>
}
anabranch.program "streams" slots 0 {
  anabranch.input "x" "f32" [16]
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [16] bytes 64
  %0 = anabranch.buffer "arena" memory 0 "f32" [16] bytes 64
  %1 = anabranch.buffer "arena" memory 1 "f32" [16] bytes 64
  %2 = anabranch.buffer "arena" memory 2 "f32" [16] bytes 64
  %y = anabranch.buffer "output" of 0 memory 7 "f32" [16] bytes 64
  %z = anabranch.buffer "output" of 1 memory 8 "f32" [16] bytes 64
  %w = anabranch.buffer "output" of 2 memory 6 "f32" [16] bytes 64
  anabranch.stream "main" {
    anabranch.launch @same reads(%x) writes(%0) sizes []
    anabranch.launch @same reads(%0) writes(%y) sizes []
    anabranch.record 0
  }
  anabranch.stream "side" {
    anabranch.launch @same reads(%x) writes(%1) sizes []
    anabranch.wait 0
    anabranch.launch @same reads(%x) writes(%2) sizes []
    anabranch.launch @same reads(%1) writes(%z) sizes []
    anabranch.launch @same reads(%2) writes(%w) sizes []
  }
  anabranch.output "tensor" %y
  anabranch.output "tensor" %z
  anabranch.output "tensor" %w
} {events = 1 : i64}
}

// -----

// Members of a super kernel get bytes of their own, so that no tile waits to
// overwrite bytes. Later commands reuse all of them.
// CHECK-LABEL: anabranch.program "super"
// CHECK-SAME: arena 192
// CHECK: memory 0 {{.*}} at 0 : i64
// CHECK: memory 1 {{.*}} at 64 : i64
// CHECK: memory 2 {{.*}} at 128 : i64
// CHECK: memory 3 {{.*}} live 3 to 4 at 0 : i64
module {
func.func @same(%a: tensor<16xf32>) -> tensor<16xf32> attributes {anabranch.kernel} {
  return %a : tensor<16xf32>
}
anabranch.program "super" slots 0 {
  anabranch.input "x" "f32" [16]
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [16] bytes 64
  %0 = anabranch.buffer "arena" memory 0 "f32" [16] bytes 64
  %1 = anabranch.buffer "arena" memory 1 "f32" [16] bytes 64
  %2 = anabranch.buffer "arena" memory 2 "f32" [16] bytes 64
  %3 = anabranch.buffer "arena" memory 3 "f32" [16] bytes 64
  %y = anabranch.buffer "output" of 0 memory 8 "f32" [16] bytes 64
  anabranch.stream "main" {
    anabranch.super "s_0" streams 1 {
      anabranch.launch @same reads(%x) writes(%0) sizes []
      anabranch.launch @same reads(%0) writes(%1) sizes []
      anabranch.launch @same reads(%1) writes(%2) sizes []
    }
    anabranch.launch @same reads(%2) writes(%3) sizes []
    anabranch.launch @same reads(%3) writes(%y) sizes []
  }
  anabranch.output "tensor" %y
}
}

// -----

// If that takes too much memory, members share bytes as commands do.
// CHECK-LABEL: anabranch.program "large"
// CHECK-SAME: arena 8388608
module {
func.func @same(%a: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {anabranch.kernel} {
  return %a : tensor<1048576xf32>
}
anabranch.program "large" slots 0 {
  anabranch.input "x" "f32" [1048576]
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [1048576] bytes 4194304
  %0 = anabranch.buffer "arena" memory 0 "f32" [1048576] bytes 4194304
  %1 = anabranch.buffer "arena" memory 1 "f32" [1048576] bytes 4194304
  %2 = anabranch.buffer "arena" memory 2 "f32" [1048576] bytes 4194304
  %3 = anabranch.buffer "arena" memory 3 "f32" [1048576] bytes 4194304
  %4 = anabranch.buffer "arena" memory 4 "f32" [1048576] bytes 4194304
  %y = anabranch.buffer "output" of 0 memory 8 "f32" [1048576] bytes 4194304
  anabranch.stream "main" {
    anabranch.super "s_0" streams 1 {
      anabranch.launch @same reads(%x) writes(%0) sizes []
      anabranch.launch @same reads(%0) writes(%1) sizes []
      anabranch.launch @same reads(%1) writes(%2) sizes []
      anabranch.launch @same reads(%2) writes(%3) sizes []
      anabranch.launch @same reads(%3) writes(%4) sizes []
      anabranch.launch @same reads(%4) writes(%y) sizes []
    }
  }
  anabranch.output "tensor" %y
}
}

// -----

// Buffers of symbolic size lie apart as long as that at most doubles their bytes: a
// chain needs two of them, and has four.
// CHECK-LABEL: anabranch.program "symbolic"
// CHECK: memory 0 {{.*}} at 0 : i64
// CHECK: memory 1 {{.*}} at [[B:#anabranch.slot<[0-9]+>]]
// CHECK: memory 2 {{.*}} at [[C:#anabranch.slot<[0-9]+>]]
// CHECK: memory 3 {{.*}} at [[D:#anabranch.slot<[0-9]+>]]
// CHECK: memory 4 {{.*}} at 0 : i64
module {
func.func @anabranch_sizes(%slots: !llvm.ptr) {
  return
}
func.func @same(%a: tensor<?xf32>) -> tensor<?xf32> attributes {anabranch.kernel} {
  return %a : tensor<?xf32>
}
anabranch.program "symbolic" slots 2 sizes @anabranch_sizes {
  anabranch.input "x" "f32" [#anabranch.slot<0>] {defines = array<i64: 0>}
  %x = anabranch.buffer "input" of 0 memory 9 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %0 = anabranch.buffer "arena" memory 0 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %1 = anabranch.buffer "arena" memory 1 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %2 = anabranch.buffer "arena" memory 2 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %3 = anabranch.buffer "arena" memory 3 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %4 = anabranch.buffer "arena" memory 4 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  %y = anabranch.buffer "output" of 0 memory 8 "f32" [#anabranch.slot<0>] bytes #anabranch.slot<1>
  anabranch.stream "main" {
    anabranch.super "s_0" streams 1 {
      anabranch.launch @same reads(%x) writes(%0) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
      anabranch.launch @same reads(%0) writes(%1) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
      anabranch.launch @same reads(%1) writes(%2) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
      anabranch.launch @same reads(%2) writes(%3) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
      anabranch.launch @same reads(%3) writes(%4) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
      anabranch.launch @same reads(%4) writes(%y) sizes [#anabranch.slot<0>, #anabranch.slot<0>]
    }
  }
  anabranch.output "tensor" %y
}
}
