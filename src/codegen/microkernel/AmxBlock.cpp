//===- AmxBlock.cpp - a block of a product in AMX registers ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/microkernel/AmxBlock.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

namespace {

constexpr int64_t rowBytes = 64;     ///< of a register
constexpr int64_t registerRows = 16; ///< at most
constexpr int64_t wordBytes = 4;

// The registers: sums of the upper and lower rows, two vectors each; two of the
// left operand, two of the right.
constexpr int64_t firstSum = 0, firstLeft = 4, firstRight = 6;
constexpr int64_t registers = 8;

/// Emits the instructions, whose registers are numbers in their text.
class AmxBuilder {
public:
  explicit AmxBuilder(LaneBuilder &lanes) : lanes(lanes) {}

  void call(StringRef name, ValueRange operands) {
    lanes.builder.create<LLVM::CallIntrinsicOp>(
        lanes.loc, Type(), ("llvm.x86." + name).str(), operands);
  }
  Value number(int64_t value) {
    return lanes.constant(lanes.builder.getI8IntegerAttr(value));
  }
  void load(int64_t tile, Value pointer, Value stride) {
    call("tileloadd64", {number(tile), pointer, stride});
  }
  void store(int64_t tile, Value pointer, Value stride) {
    call("tilestored64", {number(tile), pointer, stride});
  }
  void clear(int64_t tile) { call("tilezero", {number(tile)}); }
  void multiply(int64_t sum, int64_t left, int64_t right) {
    call("tdpbssd", {number(sum), number(left), number(right)});
  }
  Value move(Value pointer, Value bytes) {
    return lanes.builder.create<LLVM::GEPOp>(lanes.loc, pointer.getType(),
                                             lanes.builder.getI8Type(), pointer,
                                             ArrayRef<LLVM::GEPArg>{bytes});
  }
  Value move(Value pointer, int64_t bytes) {
    return move(pointer, lanes.i64(bytes));
  }

  LaneBuilder &lanes;
};

/// How many rows of a block the upper and the lower registers have. A register
/// of no rows does not exist, so the lower ones may repeat the last row.
std::pair<Value, Value> splitRows(LaneBuilder &lanes, Value rows) {
  Value most = lanes.index(registerRows);
  Value rest = lanes.subIndex(rows, most);
  return {lanes.minIndex(rows, most), lanes.maxIndex(rest, lanes.index(1))};
}

/// The 64 bytes that say how large each register is: the palette, then from
/// byte 16 on the bytes of a row, from byte 48 on the rows.
void fillConfigure(LaneBuilder &lanes, func::FuncOp function) {
  OpBuilder &b = lanes.builder;
  AmxBuilder amx(lanes);
  Value rows = function.getArgument(0), words = function.getArgument(1);
  auto bytes = VectorType::get({rowBytes}, b.getI8Type());
  Value sizes = b.create<LLVM::AllocaOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), bytes,
      lanes.i64(1), /*alignment=*/rowBytes);
  b.create<LLVM::StoreOp>(
      lanes.loc, lanes.constant(cast<TypedAttr>(b.getZeroAttr(bytes))), sizes);
  auto set = [&](int64_t at, Type type, Value value) {
    Value number = lanes.make<arith::IndexCastOp>(type, value);
    b.create<LLVM::StoreOp>(lanes.loc, number, amx.move(sizes, at), 1);
  };
  set(0, b.getI8Type(), lanes.index(1));
  auto [upper, lower] = splitRows(lanes, rows);
  Value depth = lanes.mulIndex(words, lanes.index(wordBytes));
  for (int64_t i = 0; i < registers; ++i) {
    bool isLeft = i >= firstLeft && i < firstRight, isRight = i >= firstRight;
    Value half = isLeft ? (i == firstLeft ? upper : lower)
                        : (i < firstSum + 2 ? upper : lower);
    set(16 + 2 * i, b.getI16Type(), isLeft ? depth : lanes.index(rowBytes));
    set(48 + i, b.getI8Type(), isRight ? words : half);
  }
  amx.call("ldtilecfg", {sizes});
  b.create<func::ReturnOp>(lanes.loc);
}

func::FuncOp declare(OpBuilder &builder, Operation *where, const Twine &name,
                     ArrayRef<Type> types) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(where);
  auto function = builder.create<func::FuncOp>(
      where->getLoc(), name.str(), builder.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  return function;
}

/// Writes the body of the block's function.
class BlockBody {
public:
  BlockBody(LaneBuilder &lanes, const AmxBlock &block,
            const AmxBlock::Functions &functions)
      : lanes(lanes), amx(lanes), block(block), functions(functions),
        left(argument(0)), leftStride(argument(1)), right(argument(2)),
        sums(argument(3)), depth(argument(4)), rowCount(argument(5)) {}

  void fill();

private:
  LaneBuilder &lanes;
  AmxBuilder amx;
  const AmxBlock &block;
  const AmxBlock::Functions &functions;
  Value left, leftStride, right, sums, depth, rowCount;
  Value sumStride, rightStride;
  Value lower; ///< the left operand's rows of the lower registers

  Value argument(unsigned number) const {
    return func::FuncOp(functions.block).getArgument(number);
  }
  Value isLess(Value a, Value b) {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
  }
  void forSums(llvm::function_ref<void(int64_t tile, Value at)> action);
  void loadSums();
  void storeSums();
  void startSums();
  void resize(Value rows, Value words);
  void addWords(Value first);
};

void BlockBody::forSums(
    llvm::function_ref<void(int64_t tile, Value at)> action) {
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < block.vectors; ++j) {
      int64_t offset =
          i * registerRows * block.sumStride * wordBytes + j * rowBytes;
      action(firstSum + 2 * i + j, amx.move(sums, offset));
    }
}

void BlockBody::loadSums() {
  forSums([&](int64_t tile, Value at) { amx.load(tile, at, sumStride); });
}

void BlockBody::storeSums() {
  forSums([&](int64_t tile, Value at) { amx.store(tile, at, sumStride); });
}

/// Loads the sums, or clears them unless the block continues.
void BlockBody::startSums() {
  lanes.ifElse(
      argument(6), {},
      [&] {
        loadSums();
        return SmallVector<Value>();
      },
      [&] {
        forSums([&](int64_t tile, Value) { amx.clear(tile); });
        return SmallVector<Value>();
      });
}

void BlockBody::resize(Value rows, Value words) {
  lanes.builder.create<func::CallOp>(lanes.loc, functions.configure,
                                     ValueRange{rows, words});
}

/// Adds the products of as many words as a register has, from `first` on.
void BlockBody::addWords(Value first) {
  Value along = lanes.toI64(lanes.mulIndex(first, lanes.index(wordBytes)));
  Value down = lanes.make<arith::MulIOp>(lanes.toI64(first), rightStride);
  amx.load(firstLeft, amx.move(left, along), leftStride);
  amx.load(firstLeft + 1, amx.move(lower, along), leftStride);
  Value panel = amx.move(right, down);
  for (int64_t j = 0; j < block.vectors; ++j)
    amx.load(firstRight + j, amx.move(panel, j * rowBytes), rightStride);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < block.vectors; ++j)
      amx.multiply(firstSum + 2 * i + j, firstLeft + i, firstRight + j);
}

void BlockBody::fill() {
  sumStride = lanes.i64(block.sumStride * wordBytes);
  rightStride = lanes.i64(block.rightStep * wordBytes);
  Value most = lanes.index(registerRows);
  Value lastRow = lanes.subIndex(rowCount, lanes.index(1));
  lower = amx.move(left,
                   lanes.make<arith::MulIOp>(
                       lanes.toI64(lanes.minIndex(most, lastRow)), leftStride));
  Value allRows = lanes.index(AmxBlock::rows);
  Value allWords = lanes.index(AmxBlock::words);
  Value hasFewRows = isLess(rowCount, allRows);
  lanes.ifThen(hasFewRows, [&] { resize(rowCount, allWords); });
  startSums();
  Value rest = lanes.remIndex(depth, allWords);
  Value whole = lanes.subIndex(depth, rest);
  lanes.loop(lanes.index(0), whole, AmxBlock::words,
             [&](Value word) { addWords(word); });
  storeSums();
  Value hasRest = isLess(lanes.index(0), rest);
  lanes.ifThen(hasRest, [&] {
    // New sizes clear the registers.
    resize(rowCount, rest);
    loadSums();
    addWords(whole);
    storeSums();
  });
  Value resized = lanes.make<arith::OrIOp>(hasFewRows, hasRest);
  lanes.ifThen(resized, [&] { resize(allRows, allWords); });
  lanes.builder.create<func::ReturnOp>(lanes.loc);
}

} // namespace

AmxBlock::Functions AmxBlock::create(OpBuilder &builder, Operation *where,
                                     StringRef name) const {
  OpBuilder::InsertionGuard guard(builder);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type(), index = builder.getIndexType();
  Functions made;
  made.configure = declare(builder, where, name + "_tiles", {index, index});
  made.block = declare(
      builder, where, name,
      {pointer, i64, pointer, pointer, index, index, builder.getI1Type()});
  builder.setInsertionPointToStart(made.configure.addEntryBlock());
  {
    LaneBuilder lanes(builder, where->getLoc());
    fillConfigure(lanes, made.configure);
  }
  builder.setInsertionPointToStart(made.block.addEntryBlock());
  LaneBuilder lanes(builder, where->getLoc());
  BlockBody(lanes, *this, made).fill();
  return made;
}

void AmxBlock::call(LaneBuilder &lanes, const Functions &functions,
                    const Arguments &arguments) {
  lanes.builder.create<func::CallOp>(
      lanes.loc, functions.block,
      ValueRange{arguments.left, arguments.leftStride, arguments.right,
                 arguments.sums, arguments.words, arguments.rows,
                 arguments.continues});
}

void AmxBlock::begin(LaneBuilder &lanes, const Functions &functions) {
  lanes.builder.create<func::CallOp>(
      lanes.loc, functions.configure,
      ValueRange{lanes.index(rows), lanes.index(words)});
}

void AmxBlock::end(LaneBuilder &lanes) {
  AmxBuilder(lanes).call("tilerelease", {});
}

} // namespace codegen
} // namespace anabranch
