// Updates of a part of a tensor become updates of the tensor.
// RUN: anabranch-opt %s --cse --anabranch-compose-updates --cse | FileCheck %s

// CHECK-LABEL: func @insert
//  CHECK-SAME:   %[[X:.*]]: tensor<4x2xf32>, %[[C:.*]]: tensor<3x9x8xf32>
//  CHECK-NEXT:   %[[R:.*]] = tensor.insert_slice %[[X]] into %[[C]][1, 5, 2] [1, 4, 2] [1, 2, 3]
//  CHECK-NEXT:   return %[[R]]
func.func @insert(%x: tensor<4x2xf32>, %c: tensor<3x9x8xf32>) -> tensor<3x9x8xf32> {
  %p = tensor.extract_slice %c[1, 1, 0] [1, 8, 8] [1, 1, 1] : tensor<3x9x8xf32> to tensor<8x8xf32>
  %u = tensor.insert_slice %x into %p[4, 2] [4, 2] [2, 3] : tensor<4x2xf32> into tensor<8x8xf32>
  %r = tensor.insert_slice %u into %c[1, 1, 0] [1, 8, 8] [1, 1, 1] : tensor<8x8xf32> into tensor<3x9x8xf32>
  return %r : tensor<3x9x8xf32>
}

// The part has a step, and its size of one comes and goes by reshapes.
// CHECK-LABEL: func @scatter
//  CHECK-SAME:   %[[X:.*]]: tensor<3x4xf32>, %[[I:.*]]: tensor<3xindex>, %[[C:.*]]: tensor<2x8x4xf32>
//       CHECK:   anabranch.scatter %[[X]] into %[[C]]
//       CHECK:     ^bb0(%[[P:.*]]: index, %[[Q:.*]]: index
//   CHECK-DAG:       %[[ONE:.*]] = arith.constant 1 : index
//   CHECK-DAG:       %[[TWO:.*]] = arith.constant 2 : index
//   CHECK-DAG:       %[[AT:.*]] = tensor.extract %[[I]][%[[P]]]
//       CHECK:       %[[PLACE:.*]] = arith.muli %[[AT]], %[[TWO]]
//       CHECK:       anabranch.yield %[[ONE]], %[[PLACE]], %[[Q]]
func.func @scatter(%x: tensor<3x4xf32>, %i: tensor<3xindex>, %c: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %p = tensor.extract_slice %c[1, 0, 0] [1, 4, 4] [1, 2, 1] : tensor<2x8x4xf32> to tensor<1x4x4xf32>
  %f = tensor.collapse_shape %p [[0, 1], [2]] : tensor<1x4x4xf32> into tensor<4x4xf32>
  %u = anabranch.scatter %x into %f {
  ^bb0(%a: index, %b: index, %old: f32, %new: f32):
    %at = tensor.extract %i[%a] : tensor<3xindex>
    anabranch.yield %at, %b, %new : index, index, f32
  } : tensor<3x4xf32> into tensor<4x4xf32> -> tensor<4x4xf32>
  %r = tensor.insert_slice %u into %c[1, 0, 0] [1, 4, 4] [1, 2, 1] : tensor<4x4xf32> into tensor<2x8x4xf32>
  return %r : tensor<2x8x4xf32>
}

// CHECK-LABEL: func @part_of_a_part
//  CHECK-SAME:   %[[X:.*]]: tensor<2xf32>, %[[C:.*]]: tensor<3x4x8xf32>
//  CHECK-NEXT:   %[[R:.*]] = tensor.insert_slice %[[X]] into %[[C]][2, 3, 5] [1, 1, 2] [1, 1, 1]
//  CHECK-NEXT:   return %[[R]]
func.func @part_of_a_part(%x: tensor<2xf32>, %c: tensor<3x4x8xf32>) -> tensor<3x4x8xf32> {
  %p = tensor.extract_slice %c[2, 0, 0] [1, 4, 8] [1, 1, 1] : tensor<3x4x8xf32> to tensor<4x8xf32>
  %q = tensor.extract_slice %p[3, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %u = tensor.insert_slice %x into %q[5] [2] [1] : tensor<2xf32> into tensor<8xf32>
  %v = tensor.insert_slice %u into %p[3, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<4x8xf32>
  %r = tensor.insert_slice %v into %c[2, 0, 0] [1, 4, 8] [1, 1, 1] : tensor<4x8xf32> into tensor<3x4x8xf32>
  return %r : tensor<3x4x8xf32>
}

// The rows of a part are updated as one list: the whole has that shape, too.
// CHECK-LABEL: func @reshaped
//  CHECK-SAME:   %[[X:.*]]: tensor<4xf32>, %[[C:.*]]: tensor<2x3x4xf32>
//       CHECK:   %[[FLAT:.*]] = tensor.collapse_shape %[[C]] {{.*}} : tensor<2x3x4xf32> into tensor<2x12xf32>
//       CHECK:   %[[U:.*]] = tensor.insert_slice %[[X]] into %[[FLAT]][1, 5] [1, 4] [1, 1]
//       CHECK:   %[[R:.*]] = tensor.expand_shape %[[U]] {{.*}} : tensor<2x12xf32> into tensor<2x3x4xf32>
//       CHECK:   return %[[R]]
func.func @reshaped(%x: tensor<4xf32>, %c: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %p = tensor.extract_slice %c[1, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<3x4xf32>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
  %u = tensor.insert_slice %x into %f[5] [4] [1] : tensor<4xf32> into tensor<12xf32>
  %e = tensor.expand_shape %u [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  %r = tensor.insert_slice %e into %c[1, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<3x4xf32> into tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// The part goes back to another place, or others read it.
// CHECK-LABEL: func @kept
// CHECK-COUNT-4: tensor.insert_slice
func.func @kept(%x: tensor<2xf32>, %c: tensor<3x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) {
  %p = tensor.extract_slice %c[1, 0] [1, 8] [1, 1] : tensor<3x8xf32> to tensor<8xf32>
  %u = tensor.insert_slice %x into %p[5] [2] [1] : tensor<2xf32> into tensor<8xf32>
  %r = tensor.insert_slice %u into %c[2, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<3x8xf32>
  %v = tensor.insert_slice %x into %p[0] [2] [1] : tensor<2xf32> into tensor<8xf32>
  %s = tensor.insert_slice %v into %c[1, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<3x8xf32>
  return %r, %s, %v : tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>
}
