// Programs that the verifier refuses.
// RUN: anabranch-opt %s --split-input-file --verify-diagnostics \
// RUN:   --anabranch-verify-program

module {
func.func @k(%a: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %a : tensor<4xf32>
}
anabranch.program "unplanned" slots 0 {
  // expected-error @below {{has no place}}
  %0 = anabranch.buffer "arena" memory 0 "f32" [4] bytes 16
}
}

// -----

module {
anabranch.program "shared" slots 0 arena 64 : i64 {
  %0 = anabranch.buffer "arena" memory 0 "f32" [4] bytes 16 live 0 to 1 at 0 : i64
  // expected-error @below {{shares bytes with another live buffer}}
  %1 = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 live 1 to 1 at 0 : i64
  %2 = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 at 16 : i64
  anabranch.stream "main" {
    anabranch.copy %2 to %0
    anabranch.copy %0 to %1
  }
}
}

// -----

module {
anabranch.program "unordered" slots 0 arena 64 : i64 {
  %0 = anabranch.buffer "arena" memory 0 "f32" [4] bytes 16 at 0 : i64
  // expected-error @below {{shares bytes with another live buffer}}
  %1 = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 at 0 : i64
  %2 = anabranch.buffer "arena" memory 2 "f32" [4] bytes 16 at 16 : i64
  anabranch.stream "a" {
    anabranch.copy %2 to %0
  }
  anabranch.stream "b" {
    anabranch.copy %2 to %1
  }
}
}

// -----

module {
anabranch.program "stuck" slots 0 {
  anabranch.stream "a" {
    // expected-error @below {{waits for an event that no command records}}
    anabranch.wait 0
  }
} {events = 1 : i64}
}

// -----

module {
func.func @k(%a: tensor<4xf32>) -> tensor<4xf32> attributes {anabranch.kernel} {
  return %a : tensor<4xf32>
}
anabranch.program "spoilt" slots 0 arena 64 : i64 {
  %0 = anabranch.buffer "arena" memory 0 "f32" [4] bytes 16 live 0 to 1 at 0 : i64
  anabranch.stream "main" {
    // expected-error @below {{writes result 0 over other inputs than its kernel expects}}
    anabranch.launch @k reads(%0) writes(%0) sizes []
  }
}
}

// -----

module {
func.func @k(%a: tensor<4xf32>) -> (tensor<4xf32> {anabranch.in_place = 0 : i64}) attributes {anabranch.kernel} {
  return %a : tensor<4xf32>
}
anabranch.program "elsewhere" slots 0 arena 128 : i64 {
  %0 = anabranch.buffer "arena" memory 0 "f32" [4] bytes 16 live 0 to 1 at 0 : i64
  %1 = anabranch.buffer "arena" memory 1 "f32" [4] bytes 16 live 0 to 1 at 64 : i64
  anabranch.stream "main" {
    // expected-error @below {{writes result 0 over other inputs than its kernel expects}}
    anabranch.launch @k reads(%0) writes(%1) sizes []
  }
}
}

// -----

module {
anabranch.program "unknown" slots 0 {
  anabranch.stream "main" {
    // expected-error @below {{launches a symbol that is no kernel}}
    anabranch.launch @missing sizes []
  }
}
}

// -----

module {
func.func @k(%a: tensor<?xf32>) attributes {anabranch.kernel} {
  return
}
anabranch.program "unfit" slots 0 {
  %0 = anabranch.buffer "input" of 0 memory 0 "f32" [4] bytes 16
  anabranch.stream "main" {
    // expected-error @below {{does not fit the kernel's signature}}
    anabranch.launch @k reads(%0) sizes []
  }
}
}
