// Convolutions are contractions over windows of the image. Pools read slices.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// The product reads the image through a view.
//   CHECK-DAG: #[[POINTS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 * 2 + d3, d2 * 2 + d4, d5)>
//   CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 3 + d2, d5 + d3, d6 + d4)>
// CHECK-LABEL: func @conv
//       CHECK:   tensor.insert_slice %{{.*}}[0, 0, 1, 1] [2, 3, 8, 8]
//       CHECK:   linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}], {{.*}} ins(%{{.*}} : tensor<2x3x10x10xf32>)
//   CHECK-NOT:     tensor.extract
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<2x1x3x3x3x8x8xf32> into tensor<2x27x64xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "reduction"]
//       CHECK:   tensor.expand_shape %{{.*}} : tensor<2x4x64xf32> into tensor<2x4x8x8xf32>
func.func @conv(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<2x4x8x8xf32> {
  %r = anabranch.aten "convolution"(%x, %w, %b) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = #anabranch.operand<2>, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  return %r : tensor<2x4x8x8xf32>
}

// A convolution with a window of one point reads the image itself.
// CHECK-LABEL: func @pointwise_conv
//   CHECK-NOT:   tensor.extract
//       CHECK:   return
func.func @pointwise_conv(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x1x1xf32>) -> tensor<2x6x8x8xf32> {
  %r = anabranch.aten "convolution"(%x, %w) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 2} : (tensor<2x4x8x8xf32>, tensor<6x2x1x1xf32>) -> tensor<2x6x8x8xf32>
  return %r : tensor<2x6x8x8xf32>
}

// CHECK-LABEL: func @max_pool
//       CHECK:   tensor.extract_slice %{{.*}}[0, 0, 0, 0] [2, 3, 4, 4] [1, 1, 2, 2]
//       CHECK:   tensor.extract_slice %{{.*}}[0, 0, 1, 1] [2, 3, 4, 4] [1, 1, 2, 2]
//       CHECK:   arith.maximumf
func.func @max_pool(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  %r:2 = anabranch.aten "max_pool2d_with_indices"(%x) {self = #anabranch.operand<0>, kernel_size = [2, 2], stride = [], padding = [0, 0], dilation = [1, 1], ceil_mode = false} : (tensor<2x3x8x8xf32>) -> (tensor<2x3x4x4xf32>, tensor<2x3x4x4xi64>)
  return %r#0 : tensor<2x3x4x4xf32>
}

// CHECK-LABEL: func @adaptive
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel", "reduction"]
func.func @adaptive(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x2xf32> {
  %r = anabranch.aten "_adaptive_avg_pool2d"(%x) {self = #anabranch.operand<0>, output_size = [4, 2]} : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x2xf32>
  return %r : tensor<2x3x4x2xf32>
}

// Windows of 3x3 at each point, many channels: 16 products of transformed
// squares, a tile of 2x2 points in each row. The result has an odd size.
// CHECK-LABEL: func @winograd
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "last"}
//       CHECK:   tensor.insert_slice %{{.*}}[0, 1, 1, 0] [1, 9, 8, 64] {{.*}} into tensor<1x12x10x64xf32>
//       CHECK:   tensor.extract_slice %{{.*}}[0, 3, 3, 0] [1, 5, 4, 64] [1, 2, 2, 1]
// CHECK-COUNT-16:   tensor.insert_slice {{.*}} into tensor<16x1x5x4x64xf32>
// CHECK-COUNT-16:   tensor.insert_slice {{.*}} into tensor<16x32x64xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "reduction"]{{.*}} ins(%{{.*}}, %{{.*}} : tensor<16x20x64xf32>, tensor<16x32x64xf32>)
// CHECK-COUNT-4:   tensor.insert_slice {{.*}} into tensor<1x5x2x4x2x32xf32>
//       CHECK:   tensor.extract_slice {{.*}} : tensor<1x10x8x32xf32> to tensor<1x9x8x32xf32>
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "second"}
func.func @winograd(%x: tensor<1x64x9x8xf32>, %w: tensor<32x64x3x3xf32> {anabranch.constant = "w"}, %b: tensor<32xf32>) -> tensor<1x32x9x8xf32> {
  %r = anabranch.aten "convolution"(%x, %w, %b) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = #anabranch.operand<2>, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<1x64x9x8xf32>, tensor<32x64x3x3xf32>, tensor<32xf32>) -> tensor<1x32x9x8xf32>
  return %r : tensor<1x32x9x8xf32>
}

// The squares of each group are multiplied by the weights of the group.
// CHECK-LABEL: func @winograd_groups
// CHECK-COUNT-16:   tensor.insert_slice {{.*}} into tensor<16x1x5x4x64xf32>
//       CHECK:   tensor.expand_shape {{.*}} into tensor<16x20x2x32xf32>
// CHECK-COUNT-16:   tensor.insert_slice {{.*}} into tensor<16x48x32xf32>
//       CHECK:   tensor.expand_shape {{.*}} into tensor<16x2x24x32xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]{{.*}} ins(%{{.*}}, %{{.*}} : tensor<16x20x2x32xf32>, tensor<16x2x24x32xf32>)
// CHECK-COUNT-4:   tensor.insert_slice {{.*}} into tensor<1x5x2x4x2x48xf32>
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "second"}
func.func @winograd_groups(%x: tensor<1x64x9x8xf32>, %w: tensor<48x32x3x3xf32> {anabranch.constant = "w"}, %b: tensor<48xf32>) -> tensor<1x48x9x8xf32> {
  %r = anabranch.aten "convolution"(%x, %w, %b) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = #anabranch.operand<2>, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 2} : (tensor<1x64x9x8xf32>, tensor<48x32x3x3xf32>, tensor<48xf32>) -> tensor<1x48x9x8xf32>
  return %r : tensor<1x48x9x8xf32>
}

// Not in bf16, with strides, with few channels, or for images whose sums would
// take more than 64 MiB.
// CHECK-LABEL: func @not_winograd
//   CHECK-NOT:   tensor<16x
//       CHECK:   return
func.func @not_winograd(%x: tensor<1x64x9x8xbf16>, %w: tensor<32x64x3x3xbf16> {anabranch.constant = "w"}, %y: tensor<1x64x9x8xf32>, %v: tensor<32x64x3x3xf32> {anabranch.constant = "v"}, %z: tensor<1x8x9x8xf32>, %u: tensor<32x8x3x3xf32> {anabranch.constant = "u"}, %large: tensor<1x64x256x256xf32>) -> (tensor<1x32x9x8xbf16>, tensor<1x32x5x4xf32>, tensor<1x32x9x8xf32>, tensor<1x32x256x256xf32>) {
  %r = anabranch.aten "convolution"(%x, %w) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<1x64x9x8xbf16>, tensor<32x64x3x3xbf16>) -> tensor<1x32x9x8xbf16>
  %s = anabranch.aten "convolution"(%y, %v) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = none, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<1x64x9x8xf32>, tensor<32x64x3x3xf32>) -> tensor<1x32x5x4xf32>
  %t = anabranch.aten "convolution"(%z, %u) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<1x8x9x8xf32>, tensor<32x8x3x3xf32>) -> tensor<1x32x9x8xf32>
  %l = anabranch.aten "convolution"(%large, %v) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<1x64x256x256xf32>, tensor<32x64x3x3xf32>) -> tensor<1x32x256x256xf32>
  return %r, %s, %t, %l : tensor<1x32x9x8xbf16>, tensor<1x32x5x4xf32>, tensor<1x32x9x8xf32>, tensor<1x32x256x256xf32>
}

// With a frozen weight the points are rows and the channels come last, between
// two marked views. The depth runs over taps, then channels.
// CHECK-LABEL: func @frozen
//       CHECK:   linalg.generic {{.*}} ins(%arg0 : tensor<2x3x8x8xf32>) {{.*}} attrs = {anabranch.channels = "last"}
//       CHECK:   tensor.insert_slice %{{.*}}[0, 1, 1, 0] [2, 8, 8, 3]
//       CHECK:   linalg.generic {indexing_maps = [#[[POINTS]], #{{.*}}], {{.*}} attrs = {anabranch.windows}
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<2x4x4x3x3x3xf32> into tensor<2x4x4x27xf32>
//       CHECK:   iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
//       CHECK:   linalg.generic {{.*}} attrs = {anabranch.channels = "second"}
func.func @frozen(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32> {anabranch.constant = "w"}, %b: tensor<16xf32>) -> tensor<2x16x4x4xf32> {
  %r = anabranch.aten "convolution"(%x, %w, %b) {input = #anabranch.operand<0>, weight = #anabranch.operand<1>, bias = #anabranch.operand<2>, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1} : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, tensor<16xf32>) -> tensor<2x16x4x4xf32>
  return %r : tensor<2x16x4x4xf32>
}
