// A part of a tensor is a slice if its step is one number, else a gather.
// RUN: anabranch-opt %s --anabranch-lower-aten --anabranch-verify-linalg | FileCheck %s

// CHECK-LABEL: func @slice
//       CHECK:   tensor.extract_slice %{{.*}}[0, 2] [6, 3] [1, 2] : tensor<6x8xf32> to tensor<6x3xf32>
func.func @slice(%x: tensor<6x8xf32>) -> tensor<6x3xf32> {
  %v = anabranch.aten "slice.Tensor"(%x) {self = #anabranch.operand<0>, dim = 1, start = 2, end = 7, step = 2} : (tensor<6x8xf32>) -> tensor<6x3xf32>
  return %v : tensor<6x3xf32>
}

// CHECK-LABEL: func @slice_from_end
//  CHECK-SAME:   %[[X:.*]]: tensor<?xf32>
//       CHECK:   %[[N:.*]] = tensor.dim %[[X]]
//       CHECK:   %[[END:.*]] = arith.addi %{{.*}}, %[[N]]
//       CHECK:   %[[START:.*]] = arith.maxsi %[[END]]
//       CHECK:   tensor.extract_slice %[[X]][%[[START]]] [1] [1]
func.func @slice_from_end(%x: tensor<?xf32>) -> tensor<1xf32> {
  %v = anabranch.aten "slice.Tensor"(%x) {self = #anabranch.operand<0>, dim = 0, start = -1, end = 9223372036854775807, step = 1} : (tensor<?xf32>) -> tensor<1xf32>
  return %v : tensor<1xf32>
}

// CHECK-LABEL: func @select
//       CHECK:   tensor.extract_slice %{{.*}}[0, 3, 0] [3, 1, 5] [1, 1, 1] : tensor<3x4x5xf32> to tensor<3x5xf32>
func.func @select(%x: tensor<3x4x5xf32>) -> tensor<3x5xf32> {
  %v = anabranch.aten "select.int"(%x) {self = #anabranch.operand<0>, dim = 1, index = -1} : (tensor<3x4x5xf32>) -> tensor<3x5xf32>
  return %v : tensor<3x5xf32>
}

// A slice of all elements is a reshape.
// CHECK-LABEL: func @select_of_one
//   CHECK-NOT:   extract_slice
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<3x1x5xf32> into tensor<3x5xf32>
func.func @select_of_one(%x: tensor<3x1x5xf32>) -> tensor<3x5xf32> {
  %v = anabranch.aten "select.int"(%x) {self = #anabranch.operand<0>, dim = 1, index = -1} : (tensor<3x1x5xf32>) -> tensor<3x5xf32>
  return %v : tensor<3x5xf32>
}

// CHECK-LABEL: func @select_of_one_symbolic
//   CHECK-NOT:   extract_slice
//       CHECK:   tensor.collapse_shape %{{.*}} : tensor<?x1x5xf32> into tensor<?x5xf32>
func.func @select_of_one_symbolic(%x: tensor<?x1x5xf32>, %n: index) -> tensor<?x5xf32> {
  %v = anabranch.aten "select.int"(%x) dims(%n) {self = #anabranch.operand<0>, dim = 1, index = 0} : (tensor<?x1x5xf32>) -> tensor<?x5xf32>
  return %v : tensor<?x5xf32>
}

// CHECK-LABEL: func @all_in_one_part
//   CHECK-NOT:   extract_slice
//       CHECK:   linalg.generic {{.*}} ins(%arg0 :
func.func @all_in_one_part(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %v = anabranch.aten "split_with_sizes"(%x) {self = #anabranch.operand<0>, split_sizes = [5], dim = 0} : (tensor<5x3xf32>) -> tensor<5x3xf32>
  return %v : tensor<5x3xf32>
}

// CHECK-LABEL: func @split
//       CHECK:   tensor.extract_slice %{{.*}}[0, 0] [1, 3]
//       CHECK:   tensor.extract_slice %{{.*}}[1, 0] [4, 3]
func.func @split(%x: tensor<5x3xf32>) -> (tensor<1x3xf32>, tensor<4x3xf32>) {
  %v:2 = anabranch.aten "split_with_sizes"(%x) {self = #anabranch.operand<0>, split_sizes = [1, 4], dim = 0} : (tensor<5x3xf32>) -> (tensor<1x3xf32>, tensor<4x3xf32>)
  return %v#0, %v#1 : tensor<1x3xf32>, tensor<4x3xf32>
}

// CHECK-LABEL: func @slice_scatter
//       CHECK:   tensor.insert_slice %{{.*}} into %{{.*}}[0, 1] [6, 3] [1, 2]
func.func @slice_scatter(%x: tensor<6x8xf32>, %y: tensor<6x3xf32>) -> tensor<6x8xf32> {
  %v = anabranch.aten "slice_scatter"(%x, %y) {self = #anabranch.operand<0>, src = #anabranch.operand<1>, dim = 1, start = 1, end = 7, step = 2} : (tensor<6x8xf32>, tensor<6x3xf32>) -> tensor<6x8xf32>
  return %v : tensor<6x8xf32>
}

// CHECK-LABEL: func @flip
//       CHECK:   %[[I:.*]] = linalg.index 0
//       CHECK:   %[[R:.*]] = arith.subi %{{.*}}, %[[I]]
//       CHECK:   tensor.extract %{{.*}}[%[[R]]]
func.func @flip(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %v = anabranch.aten "flip"(%x) dims(%n) {self = #anabranch.operand<0>, dims = [0]} : (tensor<?xf32>) -> tensor<?xf32>
  return %v : tensor<?xf32>
}

// CHECK-LABEL: func @cat
//       CHECK:   %[[E:.*]] = tensor.empty(%[[T:.*]]) : tensor<2x?xf32>
//       CHECK:   %[[A:.*]] = tensor.insert_slice %{{.*}} into %[[E]][0, 0] [2, %[[N:.*]]] [1, 1]
//       CHECK:   tensor.insert_slice %{{.*}} into %[[A]][0, %[[N]]] [2, 3] [1, 1]
func.func @cat(%x: tensor<2x?xf32>, %y: tensor<2x3xf32>) -> tensor<2x?xf32> {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c1 : tensor<2x?xf32>
  %t = arith.addi %n, %c3 : index
  %v = anabranch.aten "cat"(%x, %y) dims(%t) {tensors = [#anabranch.operand<0>, #anabranch.operand<1>], dim = 1} : (tensor<2x?xf32>, tensor<2x3xf32>) -> tensor<2x?xf32>
  return %v : tensor<2x?xf32>
}

// CHECK-LABEL: func @pad
//       CHECK:   tensor.extract_slice %{{.*}}[0, 1] [3, 4] [1, 1]
//       CHECK:   linalg.fill
//       CHECK:   tensor.insert_slice %{{.*}}[1, 0] [3, 4] [1, 1]
func.func @pad(%x: tensor<3x5xf32>) -> tensor<4x6xf32> {
  %v = anabranch.aten "constant_pad_nd"(%x) {self = #anabranch.operand<0>, pad = [-1, 2, 1, 0], value = 0.5} : (tensor<3x5xf32>) -> tensor<4x6xf32>
  return %v : tensor<4x6xf32>
}
