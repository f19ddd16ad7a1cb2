// A batch norm after a product of frozen weights folds into the weights.
// RUN: anabranch-opt %s --anabranch-fold-batch-norm | FileCheck %s

// CHECK-LABEL: func.func @convolution
// CHECK: math.rsqrt
// CHECK: %[[BIAS:.*]] = linalg.generic {{.*}} : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK: arith.negf
// CHECK: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%arg1, %{{.*}} : tensor<4x3x2x2xf32>, tensor<4xf32>)
// CHECK: arith.mulf
// CHECK: %[[RESULT:.*]] = anabranch.aten "convolution"(%arg0, %[[WEIGHT]], %[[BIAS]]) {bias = #anabranch.operand<2>
// CHECK-NEXT: return %[[RESULT]]
func.func @convolution(%x: tensor<2x3x5x5xf32>,
    %w: tensor<4x3x2x2xf32> {anabranch.constant = "w"},
    %mean: tensor<4xf32> {anabranch.constant = "mean"},
    %var: tensor<4xf32> {anabranch.constant = "var"},
    %gamma: tensor<4xf32> {anabranch.constant = "gamma"},
    %beta: tensor<4xf32> {anabranch.constant = "beta"}) -> tensor<2x4x4x4xf32> {
  %0 = anabranch.aten "convolution"(%x, %w) {bias, dilation = [1, 1], groups = 1 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false, weight = #anabranch.operand<1>} : (tensor<2x3x5x5xf32>, tensor<4x3x2x2xf32>) -> tensor<2x4x4x4xf32>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%beta, %0, %mean, %var, %gamma) {bias = #anabranch.operand<0>, eps = 1.0e-05 : f64, input = #anabranch.operand<1>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<2>, running_var = #anabranch.operand<3>, weight = #anabranch.operand<4>} : (tensor<4xf32>, tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x4x4xf32>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x4x4x4xf32>
}

// No folding: another reader would see the normalised product, and live
// statistics may change.
// CHECK-LABEL: func.func @read_twice
// CHECK: "_native_batch_norm_legit_no_training"
// CHECK-LABEL: func.func @live
// CHECK: "_native_batch_norm_legit_no_training"
func.func @read_twice(%x: tensor<2x3xf32>, %w: tensor<4x3xf32> {anabranch.constant = "w"},
    %mean: tensor<4xf32> {anabranch.constant = "mean"},
    %var: tensor<4xf32> {anabranch.constant = "var"}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = anabranch.aten "linear"(%x, %w) {bias, input = #anabranch.operand<0>, weight = #anabranch.operand<1>} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>)
  return %0, %1#0 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func @live(%x: tensor<2x3xf32>, %w: tensor<4x3xf32> {anabranch.constant = "w"},
    %mean: tensor<4xf32>, %var: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = anabranch.aten "linear"(%x, %w) {bias, input = #anabranch.operand<0>, weight = #anabranch.operand<1>} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x4xf32>
}

// The weight of a transposed convolution has channels in its second dimension;
// groups are a part of the first dimension.
// CHECK-LABEL: func.func @transposed(
// CHECK: linalg.generic {{.*}} ins(%arg1, %{{.*}} : tensor<3x4x1x1xf32>, tensor<4xf32>)
// CHECK-NOT: "_native_batch_norm_legit_no_training"
// CHECK-LABEL: func.func @transposed_groups(
// CHECK: "_native_batch_norm_legit_no_training"
func.func @transposed(%x: tensor<2x3x5x5xf32>,
    %w: tensor<3x4x1x1xf32> {anabranch.constant = "w"},
    %mean: tensor<4xf32> {anabranch.constant = "mean"},
    %var: tensor<4xf32> {anabranch.constant = "var"}) -> tensor<2x4x5x5xf32> {
  %0 = anabranch.aten "convolution"(%x, %w) {bias, dilation = [1, 1], groups = 1 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = true, weight = #anabranch.operand<1>} : (tensor<2x3x5x5xf32>, tensor<3x4x1x1xf32>) -> tensor<2x4x5x5xf32>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x5x5xf32>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x4x5x5xf32>
}
func.func @transposed_groups(%x: tensor<2x3x5x5xf32>,
    %w: tensor<3x4x1x1xf32> {anabranch.constant = "w"},
    %mean: tensor<12xf32> {anabranch.constant = "mean"},
    %var: tensor<12xf32> {anabranch.constant = "var"}) -> tensor<2x12x5x5xf32> {
  %0 = anabranch.aten "convolution"(%x, %w) {bias, dilation = [1, 1], groups = 3 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = true, weight = #anabranch.operand<1>} : (tensor<2x3x5x5xf32>, tensor<3x4x1x1xf32>) -> tensor<2x12x5x5xf32>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x12x5x5xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<2x12x5x5xf32>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x12x5x5xf32>
}

// The sums of a convolution of two bytes are scaled before they are rounded.
// CHECK-LABEL: func.func @of_two_bytes(
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x3xbf16>, tensor<2x3x25xbf16>) outs(%{{.*}} : tensor<2x4x25xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>) outs(%{{.*}} : tensor<2x4x5x5xbf16>)
// CHECK: math.fma
// CHECK: arith.truncf
// CHECK-NOT: "_native_batch_norm_legit_no_training"
// CHECK-LABEL: func.func @linear_of_two_bytes(
// CHECK: "_native_batch_norm_legit_no_training"
func.func @of_two_bytes(%x: tensor<2x3x5x5xbf16>,
    %w: tensor<4x3x1x1xbf16> {anabranch.constant = "w"},
    %mean: tensor<4xbf16> {anabranch.constant = "mean"},
    %var: tensor<4xf32> {anabranch.constant = "var"}) -> tensor<2x4x5x5xbf16> {
  %0 = anabranch.aten "convolution"(%x, %w) {bias, dilation = [1, 1], groups = 1 : i64, input = #anabranch.operand<0>, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false, weight = #anabranch.operand<1>} : (tensor<2x3x5x5xbf16>, tensor<4x3x1x1xbf16>) -> tensor<2x4x5x5xbf16>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x4x5x5xbf16>, tensor<4xbf16>, tensor<4xf32>) -> (tensor<2x4x5x5xbf16>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x4x5x5xbf16>
}
func.func @linear_of_two_bytes(%x: tensor<2x3xbf16>,
    %w: tensor<4x3xbf16> {anabranch.constant = "w"},
    %mean: tensor<4xbf16> {anabranch.constant = "mean"},
    %var: tensor<4xbf16> {anabranch.constant = "var"}) -> tensor<2x4xbf16> {
  %0 = anabranch.aten "linear"(%x, %w) {bias, input = #anabranch.operand<0>, weight = #anabranch.operand<1>} : (tensor<2x3xbf16>, tensor<4x3xbf16>) -> tensor<2x4xbf16>
  %1:3 = anabranch.aten "_native_batch_norm_legit_no_training"(%0, %mean, %var) {bias, eps = 1.0e-05 : f64, input = #anabranch.operand<0>, momentum = 1.0e-01 : f64, running_mean = #anabranch.operand<1>, running_var = #anabranch.operand<2>, weight} : (tensor<2x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<2x4xbf16>, tensor<0xf32>, tensor<0xf32>)
  return %1#0 : tensor<2x4xbf16>
}
