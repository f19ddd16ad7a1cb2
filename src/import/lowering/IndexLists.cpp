//===- IndexLists.cpp - what index and index_put index with ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/IndexLists.h"

#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

static int64_t rankOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank();
}

FailureOr<IndexList> IndexList::of(LoweringBuilder &b, Operand self,
                                   StringRef name) {
  IndexList list;
  list.rank = self.rank();
  for (auto [dim, index] : llvm::enumerate(b.operandList(name))) {
    if (static_cast<int64_t>(dim) >= list.rank)
      return b.refuse("more indices than dimensions");
    if (!index)
      continue;
    if (index.dtype.isBool() || index.dtype.isUnsigned)
      return b.refuse("a mask among the indices");
    if (!index.dtype.isInt())
      return b.refuse("an index is no integer tensor");
    if (self.size(dim) == 0)
      return b.refuse("an indexed dimension is empty");
    list.dims.push_back(dim);
    list.indices.push_back(index.value);
    list.width = std::max(list.width, index.rank());
  }
  if (list.dims.empty())
    return b.refuse("nothing is indexed");
  bool adjacent = list.dims.back() - list.dims.front() + 1 ==
                  static_cast<int64_t>(list.dims.size());
  list.start = adjacent ? list.dims.front() : 0;
  return list;
}

Sizes IndexList::resultSizes(LoweringBuilder &b, Value self) const {
  Sizes sizes;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(dims, dim))
      sizes.push_back(b.sizeOf(self, dim));
  Sizes common(width, b.indexAttr(1));
  for (Value index : indices) {
    int64_t offset = width - rankOf(index);
    for (auto [dim, size] : llvm::enumerate(b.sizesOf(index)))
      if (!isConstantIntValue(size, 1))
        common[offset + dim] = size;
  }
  sizes.insert(sizes.begin() + start, common.begin(), common.end());
  return sizes;
}

SmallVector<Read> IndexList::reads(ArrayRef<OpFoldResult> sizes) const {
  SmallVector<Read> reads;
  for (Value index : indices) {
    auto type = cast<RankedTensorType>(index.getType());
    reads.push_back(
        {index, broadcastMap(type, start + width - type.getRank(), sizes)});
  }
  return reads;
}

Indices IndexList::extents(LoweringBuilder &b, Value self) const {
  Indices extents;
  for (int64_t dim : dims)
    extents.push_back(asIndex(b.builder, b.loc, b.sizeOf(self, dim)));
  return extents;
}

Indices IndexList::target(Body &body, ArrayRef<Value> position,
                          ArrayRef<Value> elements,
                          ArrayRef<Value> extents) const {
  Indices rest(position);
  rest.erase(rest.begin() + start, rest.begin() + start + width);
  Indices target;
  size_t next = 0, nextRest = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (next < dims.size() && dims[next] == dim) {
      target.push_back(
          checkedIndex(body, elements[next], extents[next], /*wrap=*/true));
      ++next;
    } else {
      target.push_back(rest[nextRest++]);
    }
  }
  return target;
}

} // namespace importer
} // namespace anabranch
