//===- MicroKernel.cpp - a block of a matrix product in registers ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/MicroKernel.h"

#include "kernels/emit/Memory.h"
#include "kernels/microkernel/CodePairs.h"
#include "machine/processor/MemoryUnits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

using machine::lineBytes;

/// The arguments of the function, after the pointers of its rows.
enum Argument : unsigned {
  LeftStep,
  Right,
  RightStep,
  Sums,
  Words,
  Continues,
  Compensation
};

Value move(LaneBuilder &lanes, Value pointer, Value bytes) {
  OpBuilder &b = lanes.builder;
  return b.create<LLVM::GEPOp>(lanes.loc, pointer.getType(), b.getI8Type(),
                               pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

} // namespace

func::FuncOp MicroKernel::create(LaneBuilder &lanes, Operation *where,
                                 StringRef name) const {
  OpBuilder &builder = lanes.builder;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(where);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  SmallVector<Type> types(leftPointers(), pointer);
  types.append({i64, pointer, i64, pointer, i64, builder.getI1Type()});
  if (needsCompensation())
    types.push_back(pointer);
  auto function = builder.create<func::FuncOp>(
      where->getLoc(), name, builder.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  // The sums overlap no memory that the function reads.
  function.setArgAttr(leftPointers() + Sums, "llvm.noalias",
                      builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  fill(lanes, function);
  return function;
}

int64_t MicroKernel::rightBytes() const {
  if (codes)
    return elementBytes(element) / wordsOfCodes;
  return elementBytes(right ? right : element);
}

/// A vector of the right operand, widened to the type of the sums.
WordProduct::Factor MicroKernel::loadRight(LaneBuilder &inner,
                                           Value pointer) const {
  OpBuilder &b = inner.builder;
  Type stored = right && right != element ? right : element;
  Type loaded = stored.isBF16() ? b.getI16Type() : stored;
  Value vector =
      b.create<LLVM::LoadOp>(inner.loc, VectorType::get({lanes}, loaded),
                             pointer, elementBytes(stored));
  if (stored.isBF16()) {
    Type narrow = VectorType::get({lanes}, stored);
    vector = extendBF16(inner, inner.make<arith::BitcastOp>(narrow, vector));
  } else if (stored != element) {
    vector =
        inner.make<arith::ExtFOp>(VectorType::get({lanes}, element), vector);
  }
  return product.right(inner, vector);
}

/// The left word of a row in all lanes, `offset` bytes after the first word.
WordProduct::Factor MicroKernel::loadLeft(LaneBuilder &inner,
                                          func::FuncOp function, int64_t row,
                                          Value offset) const {
  int64_t bytes = elementBytes(element);
  auto loadAt = [&](Value pointer) -> Value {
    Value scalar =
        inner.builder.create<LLVM::LoadOp>(inner.loc, element, pointer, bytes);
    return inner.builder.create<vector::BroadcastOp>(
        inner.loc, VectorType::get({lanes}, element), scalar);
  };
  if (rowElements) {
    Value here = move(inner, function.getArgument(0), offset);
    int64_t distance = row * rowElements * bytes;
    return product.left(inner, loadAt(move(inner, here, inner.i64(distance))));
  }
  if (!interleavedRows)
    return product.left(inner,
                        loadAt(move(inner, function.getArgument(row), offset)));
  Value first = move(inner, function.getArgument(0), offset);
  WordProduct::Factor factor;
  for (int64_t part = 0; part < product.parts(); ++part) {
    int64_t place = part * interleavedRows + row;
    factor.push_back(loadAt(move(inner, first, inner.i64(place * bytes))));
  }
  return factor;
}

Value MicroKernel::sumPointer(LaneBuilder &inner, func::FuncOp function,
                              int64_t number) const {
  int64_t offset = number / vectors * sumStride + number % vectors * lanes;
  return move(inner, function.getArgument(leftPointers() + Sums),
              inner.i64(offset * elementBytes(element)));
}

SmallVector<Value> MicroKernel::startSums(LaneBuilder &inner,
                                          func::FuncOp function) const {
  OpBuilder &b = inner.builder;
  int64_t bytes = elementBytes(element), count = rows * vectors;
  auto type = VectorType::get({lanes}, element);
  Value zero = inner.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Type> types(count, type);
  auto load = [&] {
    SmallVector<Value> loaded;
    for (int64_t i = 0; i < count; ++i)
      loaded.push_back(b.create<LLVM::LoadOp>(
          inner.loc, type, sumPointer(inner, function, i), bytes));
    return loaded;
  };
  auto begin = [&] {
    SmallVector<Value> fresh(count, zero);
    for (int64_t i = 0; needsCompensation() && i < count; ++i) {
      Value row =
          move(inner, function.getArgument(leftPointers() + Compensation),
               inner.i64(i / vectors * bytes));
      fresh[i] = inner.make<vector::BroadcastOp>(
          type, b.create<LLVM::LoadOp>(inner.loc, element, row, bytes));
    }
    return fresh;
  };
  return inner.ifElse(function.getArgument(leftPointers() + Continues), types,
                      load, begin);
}

/// Fetches the right operand that later words read.
void MicroKernel::prefetch(LaneBuilder &inner, Value right) const {
  int64_t bytes = wordsAtOnce() * columns() * rightBytes();
  for (int64_t at = 0; bytesAhead && at < bytes; at += lineBytes)
    inner.builder.create<LLVM::Prefetch>(
        inner.loc, move(inner, right, inner.i64(bytesAhead + at)),
        /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

MatrixBlock MicroKernel::matrixBlock(LaneBuilder &inner) const {
  MatrixBlock::Product kind = product.matrices();
  bool rightComesFirst =
      kind == MatrixBlock::Product::MixedInt8 && product.int8->rightIsUnsigned;
  return {inner, kind, rightComesFirst, rows, vectors};
}

SmallVector<SmallVector<WordProduct::Factor>>
MicroKernel::columnsOf(LaneBuilder &inner, Value right) const {
  SmallVector<SmallVector<WordProduct::Factor>> columns(wordsAtOnce());
  int64_t vectorBytes = lanes * rightBytes() * wordsAtOnce();
  for (int64_t j = 0; j < vectors; ++j) {
    Value from = move(inner, right, inner.i64(j * vectorBytes));
    if (!codes) {
      columns[0].push_back(loadRight(inner, from));
      continue;
    }
    auto words = VectorType::get({lanes}, inner.builder.getI32Type());
    Value bytes = inner.builder.create<LLVM::LoadOp>(inner.loc, words, from,
                                                     elementBytes(element));
    for (auto [column, pairs] :
         llvm::zip_equal(columns, CodePairs(inner, codes).of(bytes)))
      column.push_back(product.right(inner, pairs));
  }
  return columns;
}

SmallVector<Value> MicroKernel::addWord(LaneBuilder &inner,
                                        func::FuncOp function, Value leftOffset,
                                        Value right, ValueRange sums) const {
  prefetch(inner, right);
  if (product.isMatrix) {
    SmallVector<Value> pointers;
    for (int64_t row = 0; row < rows; ++row)
      pointers.push_back(move(inner, function.getArgument(row), leftOffset));
    return matrixBlock(inner).add(pointers, right, sums);
  }
  SmallVector<Value> next(sums);
  for (auto [word, columns] : llvm::enumerate(columnsOf(inner, right))) {
    Value offset = leftOffset;
    if (word)
      offset =
          inner.make<arith::AddIOp>(leftOffset, leftBytes(inner, function));
    for (int64_t i = 0; i < rows; ++i) {
      WordProduct::Factor factor = loadLeft(inner, function, i, offset);
      for (int64_t j = 0; j < vectors; ++j) {
        Value &sum = next[i * vectors + j];
        sum = product.add(inner, sum, factor, columns[j]);
      }
    }
  }
  return next;
}

/// Bytes from one word of the left operand to the next.
Value MicroKernel::leftBytes(LaneBuilder &inner, func::FuncOp function) const {
  return leftStep ? inner.i64(*leftStep * elementBytes(element))
                  : Value(function.getArgument(leftPointers() + LeftStep));
}

SmallVector<Value> MicroKernel::addWords(LaneBuilder &inner,
                                         func::FuncOp function, Value first,
                                         Value end, ValueRange sums) const {
  if (runs)
    return addRuns(inner, function, first, end, sums);
  SmallVector<Value> start(sums);
  if (product.isMatrix)
    start = matrixBlock(inner).arrange(sums);
  SmallVector<Value> added = inner.loop(
      first, end, wordsAtOnce(), start, [&](Value k, ValueRange carried) {
        Value step = inner.toI64(k);
        Value leftOffset =
            inner.make<arith::MulIOp>(step, leftBytes(inner, function));
        return addWord(inner, function, leftOffset,
                       panelRow(inner, function, k), carried);
      });
  return product.isMatrix ? matrixBlock(inner).rowsOf(added) : added;
}

/// The address of a word of the right operand's columns.
Value MicroKernel::panelRow(LaneBuilder &inner, func::FuncOp function,
                            Value word) const {
  auto argument = [&](Argument which) {
    return function.getArgument(leftPointers() + which);
  };
  Value step =
      rightStep ? inner.i64(*rightStep * rightBytes()) : argument(RightStep);
  return move(inner, argument(Right),
              inner.make<arith::MulIOp>(inner.toI64(word), step));
}

/// The elements from the first word of a row to those of a run, which is
/// counted from the words that this call adds. On 64-bit Arm a sum of bytes
/// would take more registers.
Value MicroKernel::runOffset(LaneBuilder &inner, func::FuncOp function,
                             Value run) const {
  Value step = inner.make<arith::IndexCastOp>(
      inner.builder.getIndexType(),
      function.getArgument(leftPointers() + LeftStep));
  if (runs->offsetOf)
    return runs->offsetOf(inner, inner.addIndex(step, run));
  Value elements = inner.divIndex(step, inner.index(elementBytes(element)));
  return inner.mulIndex(run, elements);
}

/// How many words of a run a turn of the loop adds: some, after which the left
/// address moves by more than an element, if the run can be cut so. LLVM joins
/// a move by an element with the load of one into all lanes. On 64-bit Arm that
/// keeps a unit of vectors from the products, which could take the element from
/// a lane. Windows so close that a turn reads what another row reads in the
/// next one have turns of a word: LLVM would keep these elements in registers.
static int64_t wordsOfTurn(int64_t wordsOfRun, int64_t rowElements) {
  for (int64_t count : {2, 3})
    if (wordsOfRun % count == 0 && rowElements >= 2 * count)
      return count;
  return 1;
}

/// The words are whole runs.
SmallVector<Value> MicroKernel::addRuns(LaneBuilder &inner,
                                        func::FuncOp function, Value first,
                                        Value end, ValueRange sums) const {
  Value length = inner.index(runs->words);
  int64_t step = wordsOfTurn(runs->words, rowElements);
  return inner.loop(
      inner.divIndex(first, length), inner.divIndex(end, length), 1, sums,
      [&](Value run, ValueRange carried) {
        Value start = runOffset(inner, function, run);
        Value word = inner.mulIndex(run, length);
        auto addAt = [&](Value at, ValueRange before) {
          Value offset = inner.mulIndex(inner.addIndex(start, at),
                                        inner.index(elementBytes(element)));
          return addWord(inner, function, inner.toI64(offset),
                         panelRow(inner, function, inner.addIndex(word, at)),
                         before);
        };
        return inner.loop(inner.index(0), length, step, carried,
                          [&](Value at, ValueRange carriedOn) {
                            SmallVector<Value> added(carriedOn);
                            for (int64_t i = 0; i < step; ++i)
                              added = addAt(inner.addIndex(at, inner.index(i)),
                                            added);
                            return added;
                          });
      });
}

void MicroKernel::storeSums(LaneBuilder &inner, func::FuncOp function,
                            ValueRange sums) const {
  for (auto [i, value] : llvm::enumerate(sums))
    inner.builder.create<LLVM::StoreOp>(
        inner.loc, value, sumPointer(inner, function, i), elementBytes(element),
        /*isVolatile=*/wordsOfPartialSum > 0);
}

/// Adds words to partial sums that start at zero. Then adds these to the sums
/// before, if there are any. If parts follow each other, the sums before stay
/// in memory: LLVM would keep them in registers that the parts need, and spill
/// them twice a part.
void MicroKernel::addPart(LaneBuilder &inner, func::FuncOp function,
                          Value first, Value end) const {
  OpBuilder &b = inner.builder;
  auto type = VectorType::get({lanes}, element);
  Value zero = inner.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Value> zeros(rows * vectors, zero);
  SmallVector<Type> types(rows * vectors, type);
  SmallVector<Value> part = addWords(inner, function, first, end, zeros);
  Value isLater = inner.make<arith::CmpIOp>(arith::CmpIPredicate::ne, first,
                                            inner.index(0));
  Value adds = inner.make<arith::OrIOp>(
      isLater, function.getArgument(leftPointers() + Continues));
  auto added = [&] {
    SmallVector<Value> total;
    for (auto [i, value] : llvm::enumerate(part)) {
      Value before = b.create<LLVM::LoadOp>(
          inner.loc, type, sumPointer(inner, function, i),
          elementBytes(element), /*isVolatile=*/wordsOfPartialSum > 0);
      total.push_back(inner.make<arith::AddFOp>(before, value));
    }
    return total;
  };
  storeSums(inner, function,
            inner.ifElse(adds, types, added, [&] { return part; }));
}

void MicroKernel::fill(LaneBuilder &lanes, func::FuncOp function) const {
  OpBuilder &b = lanes.builder;
  // The function needs a builder of its own, since it cannot use values of
  // other functions.
  LaneBuilder inner(b, function.getLoc(), lanes.isa);
  Value words = function.getArgument(leftPointers() + Words);
  Value none = inner.index(0);
  Value end = inner.make<arith::IndexCastOp>(b.getIndexType(), words);
  if (!isa<FloatType>(element)) {
    storeSums(inner, function,
              addWords(inner, function, none, end, startSums(inner, function)));
  } else if (!wordsOfPartialSum) {
    addPart(inner, function, none, end);
  } else {
    // A depth of zero runs the loop once too, since the sums must become zero.
    inner.loop(none, inner.maxIndex(end, inner.index(1)), wordsOfPartialSum,
               [&](Value first) {
                 Value stop =
                     inner.addIndex(first, inner.index(wordsOfPartialSum));
                 addPart(inner, function, first, inner.minIndex(stop, end));
               });
  }
  b.create<func::ReturnOp>(inner.loc);
}

void MicroKernel::call(LaneBuilder &lanes, func::FuncOp function,
                       const Arguments &arguments) const {
  Value unused = lanes.i64(0);
  SmallVector<Value> operands(arguments.left);
  operands.append(
      {arguments.leftStep ? arguments.leftStep : unused, arguments.right,
       arguments.rightStep ? arguments.rightStep : unused, arguments.sums,
       lanes.toI64(arguments.words), arguments.continues});
  if (needsCompensation())
    operands.push_back(arguments.compensation);
  lanes.builder.create<func::CallOp>(lanes.loc, function, operands);
}

} // namespace kernels
} // namespace anabranch
