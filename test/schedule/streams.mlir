// Fusion stays within streams and fences. Buffers share bytes only if one is done
// before the other begins.
// RUN: anabranch-opt %s --until=memory | FileCheck %s

// CHECK: anabranch.buffer "arena" memory [[#]] "f32" [64] bytes 256 : i64 live {{.*}} at 0
// CHECK: anabranch.buffer "arena" memory [[#]] "f32" [64] bytes 256 : i64 live {{.*}} at 256
// CHECK: anabranch.stream "main"
// CHECK-COUNT-2: anabranch.launch
// CHECK: anabranch.stream "s"
// CHECK-COUNT-2: anabranch.launch
#i = affine_map<(i) -> (i)>
#z = affine_map<(i) -> ()>
#neg = {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%l: f32, %o: f32):
    %n = arith.negf %l : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%y : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {anabranch.scope = #anabranch.scope<"s", 0, 0>} {
  ^bb0(%l: f32, %o: f32):
    %n = arith.negf %l : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  anabranch.fence after(%b : tensor<64xf32>)
  %c = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%a : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%l: f32, %o: f32):
    %n = arith.mulf %l, %l : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  anabranch.fence after(%a : tensor<64xf32>) {anabranch.scope = #anabranch.scope<"s", 0, 0>}
  %d = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
      ins(%b : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {anabranch.scope = #anabranch.scope<"s", 0, 0>} {
  ^bb0(%l: f32, %o: f32):
    %n = arith.mulf %l, %l : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  return %c, %d : tensor<64xf32>, tensor<64xf32>
}
