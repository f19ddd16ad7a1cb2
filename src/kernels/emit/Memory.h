//===- Memory.h - lanes from and to memory ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMIT_MEMORY_H
#define ANABRANCH_KERNELS_EMIT_MEMORY_H

#include "kernels/emit/Lanes.h"

namespace anabranch {
namespace kernels {

/// Strided memory that holds a tensor.
struct Buffer {
  mlir::Value pointer; ///< !llvm.ptr to the element with index zero
  mlir::Type element;  ///< of the tensor; i1 is a byte in memory
  mlir::SmallVector<mlir::Value> strides; ///< `index`, in elements
};

/// Elements at this distance or less are loaded as whole vectors.
constexpr int64_t widestStep = 4;

/// Bytes of one element in memory.
int64_t elementBytes(mlir::Type element);

/// The type of an element in buffers: bytes for bool, integers of 64 bits for
/// index, and the bits of floats on which LLVM must not select instructions.
mlir::Type memoryType(mlir::Type element);

/// Bytes of a tensor; none if only a call knows a size.
std::optional<int64_t> tensorBytes(mlir::Value tensor);

/// The address `bytes` bytes after another one.
mlir::Value addBytes(LaneBuilder &lanes, mlir::Value pointer,
                     mlir::Value bytes);

/// bf16 as f32, and back (round to nearest even).
mlir::Value extendBF16(LaneBuilder &lanes, mlir::Value value);
mlir::Value truncateToBF16(LaneBuilder &lanes, mlir::Value value);

/// `loadRaw` loads the consecutive elements from `index` on, as they lie in
/// memory. `fromMemory` makes elements of such a vector or scalar.
mlir::Value loadRaw(LaneBuilder &lanes, const Buffer &buffer,
                    mlir::ArrayRef<Lanes> index);
mlir::Value fromMemory(LaneBuilder &lanes, mlir::Value loaded,
                       mlir::Type element);

/// f16 as f32, in a form that LLVM keeps. Otherwise LLVM would compare and
/// select in f16, lane by lane on processors without f16 arithmetic.
mlir::Value extendF16(LaneBuilder &lanes, mlir::Value value);

/// The elements at `index`. Inactive lanes read nothing and are zero.
Lanes load(LaneBuilder &lanes, const Buffer &buffer,
           mlir::ArrayRef<Lanes> index);

/// Prefetches the cache line of the first lane. The address may be anywhere.
void prefetch(LaneBuilder &lanes, const Buffer &buffer,
              mlir::ArrayRef<Lanes> index);

/// LLVM moves no access to memory across this point. A processor's own prefetch
/// follows loads in the order of their addresses, and LLVM's scheduler would
/// rather interleave independent sums.
void keepOrder(LaneBuilder &lanes);

/// Writes the active lanes. If every lane has the same address, the last lane's
/// value stays.
void store(LaneBuilder &lanes, const Buffer &buffer,
           mlir::ArrayRef<Lanes> index, Lanes value);

/// Elements to write, and where.
struct PendingStore {
  Buffer buffer;
  mlir::SmallVector<Lanes> index;
  Lanes value;
};

/// Writes the elements of several vectors. They are stored as whole vectors if
/// those of a lane are neighbours in memory, in the order of `stores`, and
/// those of the next lane follow. The mask may not be set.
void storeInterleaved(LaneBuilder &lanes, mlir::ArrayRef<PendingStore> stores);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_MEMORY_H
