// Products of tensors that stand for bytes multiply the bytes.
// RUN: anabranch-opt %s --anabranch-multiply-integers | FileCheck %s

// The zero point of the input becomes a sum of the weight's columns, which is
// steady. Bytes without a sign multiply bytes with one.
// CHECK-LABEL: func.func @linear
// CHECK: %[[COLUMNS:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<4x8xi8>) outs(%{{.*}} : tensor<4xi32>)
// CHECK: arith.constant 93 : i32
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<5x8xi8>, tensor<4x8xi8>) outs(%{{.*}} : tensor<5x4xi32>)
// CHECK: arith.extui
// CHECK: arith.extsi
// CHECK: arith.muli
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]], %{{.*}}, %{{.*}}, %arg3 : tensor<5x4xi32>, tensor<4x1xi32>, tensor<4x1xf32>, tensor<4xf32>)
// CHECK-NOT: anabranch.aten "linear"
func.func @linear(%q: tensor<5x8xi8>,
    %w: tensor<4x8xi8> {anabranch.constant = "w"},
    %scale: tensor<4x1xf32> {anabranch.constant = "scale"},
    %bias: tensor<4xf32>) -> tensor<5x4xf32> {
  %0 = anabranch.aten "_to_copy"(%q) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} {unsignedOperands = array<i64: 0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %1 = anabranch.aten "sub.Tensor"(%0) {alpha = 1 : i64, other = 93 : i64, self = #anabranch.operand<0>} : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %2 = anabranch.aten "mul.Tensor"(%1) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %3 = anabranch.aten "mul.Tensor"(%w, %scale) {other = #anabranch.operand<1>, self = #anabranch.operand<0>} : (tensor<4x8xi8>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %4 = anabranch.aten "linear"(%bias, %2, %3) {bias = #anabranch.operand<0>, input = #anabranch.operand<1>, weight = #anabranch.operand<2>} : (tensor<4xf32>, tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  return %4 : tensor<5x4xf32>
}

// The padding of a convolution is the zero point. The weight's own zero points
// are frozen zeros.
// CHECK-LABEL: func.func @convolution
// CHECK: %[[ZERO:.*]] = arith.constant 7 : i8
// CHECK: linalg.fill ins(%[[ZERO]] : i8)
// CHECK: arith.muli
// CHECK-NOT: anabranch.aten "convolution"
func.func @convolution(%q: tensor<1x3x6x6xi8>,
    %w: tensor<4x3x3x3xi8> {anabranch.constant = "w"},
    %zeros: tensor<4x1x1x1xi64> {anabranch.constant = "zeros", anabranch.range = array<i64: 0, 0>}) -> tensor<1x4x6x6xf32> {
  %0 = anabranch.aten "_to_copy"(%q) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<1x3x6x6xi8>) -> tensor<1x3x6x6xf32>
  %1 = anabranch.aten "sub.Tensor"(%0) {alpha = 1 : i64, other = 7 : i64, self = #anabranch.operand<0>} : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32>
  %2 = anabranch.aten "_to_copy"(%w) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<4x3x3x3xi8>) -> tensor<4x3x3x3xf32>
  %3 = anabranch.aten "sub.Tensor"(%2, %zeros) {alpha = 1 : i64, other = #anabranch.operand<1>, self = #anabranch.operand<0>} : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xi64>) -> tensor<4x3x3x3xf32>
  %4 = anabranch.aten "convolution"(%1, %3) {bias, dilation = [1, 1], groups = 1 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false, weight = #anabranch.operand<1>} : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %4 : tensor<1x4x6x6xf32>
}

// A scale that changes along the depth, and a zero point that is no integer.
// CHECK-LABEL: func.func @scaled_along_depth
// CHECK: anabranch.aten "linear"
// CHECK-LABEL: func.func @no_integer
// CHECK: anabranch.aten "linear"
func.func @scaled_along_depth(%q: tensor<5x8xi8>, %w: tensor<4x8xi8>,
    %scale: tensor<8xf32>) -> tensor<5x4xf32> {
  %0 = anabranch.aten "mul.Tensor"(%q) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %1 = anabranch.aten "mul.Tensor"(%w, %scale) {other = #anabranch.operand<1>, self = #anabranch.operand<0>} : (tensor<4x8xi8>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = anabranch.aten "linear"(%0, %1) {bias, input = #anabranch.operand<0>, weight = #anabranch.operand<1>} : (tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  return %2 : tensor<5x4xf32>
}
func.func @no_integer(%q: tensor<5x8xi8>, %w: tensor<4x8xi8>) -> tensor<5x4xf32> {
  %0 = anabranch.aten "_to_copy"(%q) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %1 = anabranch.aten "sub.Tensor"(%0) {alpha = 1 : i64, other = 0.25 : f64, self = #anabranch.operand<0>} : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %2 = anabranch.aten "mul.Tensor"(%w) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %3 = anabranch.aten "linear"(%1, %2) {bias, input = #anabranch.operand<0>, weight = #anabranch.operand<1>} : (tensor<5x8xf32>, tensor<4x8xf32>) -> tensor<5x4xf32>
  return %3 : tensor<5x4xf32>
}

// The operators stay on the stream of the call.
// CHECK-LABEL: func.func @on_a_stream
// CHECK: linalg.generic {{.*}} attrs = {anabranch.scope = #anabranch.scope<"x", 0, 1>}
// CHECK: arith.muli
// CHECK-NOT: anabranch.aten "mm"
func.func @on_a_stream(%q: tensor<5x8xi8>, %w: tensor<8x4xi8>) -> tensor<5x4xf32> {
  %0 = anabranch.aten "mul.Tensor"(%q) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %1 = anabranch.aten "mul.Tensor"(%w) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %2 = anabranch.aten "mm"(%0, %1) {mat2 = #anabranch.operand<1>, self = #anabranch.operand<0>} {anabranch.scope = #anabranch.scope<"x", 0, 1>} : (tensor<5x8xf32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  return %2 : tensor<5x4xf32>
}

// A factor that is computed from sizes stays with its call. The number of a zero
// point is unknown after a conversion to bytes, which may wrap around.
// CHECK-LABEL: func.func @scaled_by_a_size
// CHECK: anabranch.aten "addmm"
// CHECK-LABEL: func.func @narrow_zero
// CHECK-NOT: arith.constant 300
// CHECK-NOT: arith.constant 3.0
// CHECK: return
func.func @scaled_by_a_size(%b: tensor<4xf32>, %q: tensor<5x8xi8>, %w: tensor<8x4xi8>, %size: f64) -> tensor<5x4xf32> {
  %0 = anabranch.aten "mul.Tensor"(%q) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %1 = anabranch.aten "mul.Tensor"(%w) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %2 = anabranch.aten "addmm"(%b, %0, %1, %size) {alpha = #anabranch.operand<3>, beta = 1 : i64, mat1 = #anabranch.operand<1>, mat2 = #anabranch.operand<2>, self = #anabranch.operand<0>} : (tensor<4xf32>, tensor<5x8xf32>, tensor<8x4xf32>, f64) -> tensor<5x4xf32>
  return %2 : tensor<5x4xf32>
}
func.func @narrow_zero(%q: tensor<5x8xi8>, %w: tensor<8x4xi8>,
    %zero: tensor<i64> {anabranch.constant = "zero", anabranch.range = array<i64: 300, 300>}) -> tensor<5x4xf32> {
  %0 = anabranch.aten "_to_copy"(%zero) {device, dtype = i8, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<i64>) -> tensor<i8>
  %1 = anabranch.aten "_to_copy"(%0) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<i8>) -> tensor<f32>
  %2 = anabranch.aten "_to_copy"(%q) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<5x8xi8>) -> tensor<5x8xf32>
  %3 = anabranch.aten "sub.Tensor"(%2, %1) {alpha = 1 : i64, other = #anabranch.operand<1>, self = #anabranch.operand<0>} : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xf32>
  %4 = anabranch.aten "mul.Tensor"(%w) {other = 0.5 : f64, self = #anabranch.operand<0>} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %5 = anabranch.aten "mm"(%3, %4) {mat2 = #anabranch.operand<1>, self = #anabranch.operand<0>} : (tensor<5x8xf32>, tensor<8x4xf32>) -> tensor<5x4xf32>
  return %5 : tensor<5x4xf32>
}

// A depthwise convolution joins its bytes to words, three taps of a column in
// each.
// CHECK-LABEL: func.func @depthwise
// CHECK: %[[WORDS:.*]] = linalg.generic
// CHECK: arith.muli {{.*}} : i32
// CHECK: %[[SUMS:.*]] = linalg.generic
// CHECK-COUNT-3: anabranch.byte_dot %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{[^,]*}} : i32, i8, i8, i8
// CHECK-NOT: anabranch.aten "convolution"
func.func @depthwise(%q: tensor<1x32x8x8xi8>,
    %w: tensor<32x1x3x3xi8> {anabranch.constant = "w"}) -> tensor<1x32x8x8xf32> {
  %0 = anabranch.aten "_to_copy"(%q) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} {unsignedOperands = array<i64: 0>} : (tensor<1x32x8x8xi8>) -> tensor<1x32x8x8xf32>
  %1 = anabranch.aten "sub.Tensor"(%0) {alpha = 1 : i64, other = 7 : i64, self = #anabranch.operand<0>} : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  %2 = anabranch.aten "_to_copy"(%w) {device, dtype = f32, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<32x1x3x3xi8>) -> tensor<32x1x3x3xf32>
  %3 = anabranch.aten "convolution"(%1, %2) {bias, dilation = [1, 1], groups = 32 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false, weight = #anabranch.operand<1>} : (tensor<1x32x8x8xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x8x8xf32>
  return %3 : tensor<1x32x8x8xf32>
}

// A number is clamped once before it is rounded, by its activation too where
// nobody else reads that. The zero point follows as an integer.
// CHECK-LABEL: func.func @rounded
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<8xf32>)
// CHECK: arith.mulf
// CHECK-DAG: arith.constant 0.000000e+00 : f32
// CHECK-DAG: arith.constant 1.200000e+01 : f32
// CHECK: math.roundeven
// CHECK: arith.fptosi
// CHECK: arith.addi
// CHECK: arith.trunci
// CHECK-LABEL: func.func @read_twice
// CHECK: anabranch.aten "hardtanh"
// CHECK: anabranch.aten "mul.Tensor"
// CHECK: arith.constant -5.000000e+00 : f32
// CHECK: arith.constant 2.500000e+02 : f32
// CHECK-LABEL: func.func @by_another_call
// CHECK: math.roundeven
// CHECK-LABEL: func.func @too_wide
// CHECK: anabranch.aten "round"
func.func @rounded(%x: tensor<8xf32>) -> tensor<8xi8> {
  %0 = anabranch.aten "hardtanh"(%x) {max_val = 6.0 : f64, min_val = 0.0 : f64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "mul.Tensor"(%0) {other = 2.0 : f64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = anabranch.aten "round"(%1) {self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %3 = anabranch.aten "add.Tensor"(%2) {alpha = 1 : i64, other = 5 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %4 = anabranch.aten "clamp"(%3) {max = 255 : i64, min = 0 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %5 = anabranch.aten "_to_copy"(%4) {device, dtype = ui8, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} {unsignedResults = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xi8>
  return %5 : tensor<8xi8>
}
func.func @read_twice(%x: tensor<8xf32>) -> (tensor<8xi8>, tensor<8xf32>) {
  %0 = anabranch.aten "hardtanh"(%x) {max_val = 6.0 : f64, min_val = 0.0 : f64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "mul.Tensor"(%0) {other = 2.0 : f64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = anabranch.aten "round"(%1) {self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %3 = anabranch.aten "add.Tensor"(%2) {alpha = 1 : i64, other = 5 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %4 = anabranch.aten "clamp"(%3) {max = 255 : i64, min = 0 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %5 = anabranch.aten "_to_copy"(%4) {device, dtype = ui8, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} {unsignedResults = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xi8>
  return %5, %0 : tensor<8xi8>, tensor<8xf32>
}
func.func @by_another_call(%x: tensor<8xf32>) -> tensor<8xi8> {
  %0 = anabranch.aten "round"(%x) {self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "clamp"(%0) {max = 127 : i64, min = -128 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = anabranch.aten "prims::convert_element_type"(%1) {a = #anabranch.operand<0>, dtype = i8} : (tensor<8xf32>) -> tensor<8xi8>
  return %2 : tensor<8xi8>
}
func.func @too_wide(%x: tensor<8xf32>) -> tensor<8xi8> {
  %0 = anabranch.aten "round"(%x) {self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = anabranch.aten "clamp"(%0) {max = 255 : i64, min = 0 : i64, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = anabranch.aten "_to_copy"(%1) {device, dtype = i8, layout, memory_format, non_blocking = false, pin_memory, self = #anabranch.operand<0>} : (tensor<8xf32>) -> tensor<8xi8>
  return %2 : tensor<8xi8>
}
