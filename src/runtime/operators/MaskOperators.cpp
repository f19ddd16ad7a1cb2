//===- MaskOperators.cpp - select and assign by a mask --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/MaskOperators.h"

#include "runtime/operators/OwnCall.h"
#include "selection/Mask.h"
#include "selection/Rows.h"

#include <algorithm>

namespace anabranch::runtime {

namespace {

using selection::Mask;

Mask maskOf(const TensorView &tensor) {
  return Mask(tensor.data, tensor.dtype, elementsOf(tensor));
}

/// A tensor around the dimensions that a mask chooses from:
///
///   [outer dimensions, those of the mask, inner dimensions]
struct Masked {
  TensorView self, mask;
  int32_t first = 0; ///< of the mask's dimensions

  int64_t outer() const { return countOf(self.shape, self.shape + first); }
  /// The bytes of one row: of the inner dimensions.
  size_t rowBytes() const {
    return static_cast<size_t>(countOf(self.shape + first + mask.rank,
                                       self.shape + self.rank)) *
           itemSize(self.dtype);
  }
  /// The bytes of all rows of one outer index.
  size_t blockBytes() const {
    return static_cast<size_t>(elementsOf(mask)) * rowBytes();
  }
  std::vector<int64_t> chosenShape(int64_t count) const {
    std::vector<int64_t> shape(self.shape, self.shape + first);
    shape.push_back(count);
    shape.insert(shape.end(), self.shape + first + mask.rank,
                 self.shape + self.rank);
    return shape;
  }
};

/// Reads `self` and the only mask in `indices`.
Masked readMasked(OwnCall &call) {
  Masked found;
  size_t count = 0;
  const HostArgument *items = call.items("indices", count);
  auto isMask = [](const HostArgument &item) {
    return item.kind == HostArgument::Kind::Tensor;
  };
  const HostArgument *place = std::find_if(items, items + count, isMask);
  if (std::count_if(items, items + count, isMask) != 1) {
    call.fail("takes one mask");
    return found;
  }
  found.self = call.tensor("self");
  found.mask = call.contiguous(*place);
  found.first = static_cast<int32_t>(place - items);
  if (!call.ok())
    return found;
  const int64_t *chosen = found.self.shape + found.first;
  if (found.first + found.mask.rank > found.self.rank ||
      !std::equal(chosen, chosen + found.mask.rank, found.mask.shape))
    call.fail("the mask's shape is not that of the tensor that it selects "
              "from");
  return found;
}

/// The shape that both broadcast to; checked by `OwnCall::broadcast`.
std::vector<int64_t> commonShape(const TensorView &a, const TensorView &b) {
  std::vector<int64_t> shape = shapeOf(a.rank >= b.rank ? a : b);
  const TensorView &lower = a.rank >= b.rank ? b : a;
  for (int32_t dim = 0; dim < lower.rank; ++dim) {
    int64_t &size = shape[shape.size() - lower.rank + dim];
    if (size == 1)
      size = lower.shape[dim];
  }
  return shape;
}

} // namespace

void runNonzero(OwnCall &call) {
  TensorView self = call.tensor("self");
  if (!call.ok())
    return;
  Mask mask = maskOf(self);
  if (void *made = call.make(0, DType::I64, {mask.trues(), self.rank}))
    writePositions(mask, self.shape, self.rank, static_cast<int64_t *>(made));
}

void runNonzeroStatic(OwnCall &call) {
  TensorView self = call.tensor("self");
  int64_t size = call.integer("size");
  if (call.ok() && size < 0)
    call.fail("the size " + std::to_string(size) + " is negative");
  if (!call.ok())
    return;
  void *memory = call.make(0, DType::I64, {size, self.rank});
  if (!memory)
    return;
  Mask mask = maskOf(self);
  std::vector<int64_t> found(mask.trues() * self.rank);
  writePositions(mask, self.shape, self.rank, found.data());
  auto *made = static_cast<int64_t *>(memory), *end = made + size * self.rank;
  int64_t kept = std::min(size, mask.trues()) * self.rank;
  std::fill(std::copy_n(found.data(), kept, made), end,
            call.integer("fill_value"));
}

void runIndex(OwnCall &call) {
  Masked given = readMasked(call);
  if (!call.ok())
    return;
  Mask mask = maskOf(given.mask);
  auto *made = static_cast<char *>(
      call.make(0, given.self.dtype, given.chosenShape(mask.trues())));
  const char *rows = static_cast<const char *>(given.self.data);
  size_t bytes = given.rowBytes();
  for (int64_t i = 0, outer = given.outer(); made && i < outer; ++i) {
    selectRows(mask, rows, bytes, made);
    rows += given.blockBytes();
    made += static_cast<size_t>(mask.trues()) * bytes;
  }
}

void runMaskedSelect(OwnCall &call) {
  TensorView self = call.tensor("self"), mask = call.tensor("mask");
  if (!call.ok())
    return;
  std::vector<int64_t> shape = commonShape(self, mask);
  self = call.broadcast(self, shape);
  mask = call.broadcast(mask, shape);
  if (!call.ok())
    return;
  Mask chosen = maskOf(mask);
  if (void *made = call.make(0, self.dtype, {chosen.trues()}))
    selectRows(chosen, self.data, itemSize(self.dtype), made);
}

void runIndexPut(OwnCall &call) {
  Masked given = readMasked(call);
  TensorView values = call.tensor("values");
  if (!call.ok())
    return;
  if (values.dtype != given.self.dtype || call.boolean("accumulate"))
    return call.fail("assigns values of the tensor's dtype");
  Mask mask = maskOf(given.mask);
  std::vector<int64_t> shape = given.chosenShape(mask.trues());
  // One row for all positions needs no copy for each.
  size_t bytes = given.rowBytes(), step = bytes;
  if (given.first == 0 && values.rank < static_cast<int32_t>(shape.size())) {
    shape.erase(shape.begin());
    step = 0;
  }
  values = call.broadcast(values, shape);
  auto *made =
      static_cast<char *>(call.make(0, given.self.dtype, shapeOf(given.self)));
  if (!call.ok())
    return;
  // An empty tensor may have no memory, which memcpy does not take.
  std::copy_n(static_cast<const char *>(given.self.data),
              static_cast<size_t>(elementsOf(given.self)) *
                  itemSize(given.self.dtype),
              made);
  const char *from = static_cast<const char *>(values.data);
  for (int64_t i = 0, outer = given.outer(); i < outer; ++i) {
    assignRows(mask, from, step, bytes, made);
    made += given.blockBytes();
    from += static_cast<size_t>(mask.trues()) * step;
  }
}

void runMaskedScatter(OwnCall &call) {
  TensorView self = call.tensor("self"), mask = call.tensor("mask");
  TensorView source = call.tensor("source");
  if (!call.ok())
    return;
  if (source.dtype != self.dtype)
    return call.fail("the source's dtype is not that of the tensor");
  std::vector<int64_t> shape = commonShape(self, mask);
  self = call.broadcast(self, shape);
  mask = call.broadcast(mask, shape);
  if (!call.ok())
    return;
  Mask chosen = maskOf(mask);
  if (elementsOf(source) < chosen.trues())
    return call.fail("the source has " + std::to_string(elementsOf(source)) +
                     " elements, and the mask chooses " +
                     std::to_string(chosen.trues()));
  size_t bytes = itemSize(self.dtype);
  auto *made = static_cast<char *>(call.make(0, self.dtype, shape));
  if (!made)
    return;
  std::copy_n(static_cast<const char *>(self.data),
              static_cast<size_t>(elementsOf(self)) * bytes, made);
  assignRows(chosen, source.data, bytes, bytes, made);
}

} // namespace anabranch::runtime
