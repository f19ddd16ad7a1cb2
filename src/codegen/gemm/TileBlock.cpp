//===- TileBlock.cpp - a block of a product in tile registers -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/TileBlock.h"

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
class TileBuilder {
public:
  explicit TileBuilder(LaneBuilder &lanes) : lanes(lanes) {}

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

/// How many of the rows of a block the upper and the lower registers have. The
/// lower ones have at least one, since none is no size: it repeats the last.
std::pair<Value, Value> splitRows(LaneBuilder &lanes, Value rows) {
  Value most = lanes.index(registerRows);
  Value rest = lanes.subIndex(rows, most);
  return {lanes.minIndex(rows, most), lanes.maxIndex(rest, lanes.index(1))};
}

/// The 64 bytes that say how large each register is: the palette, then from
/// byte 16 on the bytes of a row, from byte 48 on the rows.
void fillTiles(LaneBuilder &lanes, func::FuncOp function) {
  OpBuilder &b = lanes.builder;
  TileBuilder tiles(lanes);
  Value rows = function.getArgument(0), words = function.getArgument(1);
  auto bytes = VectorType::get({rowBytes}, b.getI8Type());
  Value sizes = b.create<LLVM::AllocaOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), bytes,
      lanes.i64(1), /*alignment=*/rowBytes);
  b.create<LLVM::StoreOp>(
      lanes.loc, lanes.constant(cast<TypedAttr>(b.getZeroAttr(bytes))), sizes);
  auto set = [&](int64_t at, Type type, Value value) {
    Value number = lanes.make<arith::IndexCastOp>(type, value);
    b.create<LLVM::StoreOp>(lanes.loc, number, tiles.move(sizes, at), 1);
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
  tiles.call("ldtilecfg", {sizes});
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

} // namespace

TileBlock::Functions TileBlock::create(OpBuilder &builder, Operation *where,
                                       StringRef name) const {
  OpBuilder::InsertionGuard guard(builder);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type(), index = builder.getIndexType();
  Functions made;
  made.tiles = declare(builder, where, name + "_tiles", {index, index});
  made.block = declare(
      builder, where, name,
      {pointer, i64, pointer, pointer, index, index, builder.getI1Type()});
  builder.setInsertionPointToStart(made.tiles.addEntryBlock());
  {
    LaneBuilder lanes(builder, where->getLoc());
    fillTiles(lanes, made.tiles);
  }
  builder.setInsertionPointToStart(made.block.addEntryBlock());
  LaneBuilder lanes(builder, where->getLoc());
  fill(lanes, made);
  return made;
}

void TileBlock::fill(LaneBuilder &lanes, const Functions &functions) const {
  TileBuilder tiles(lanes);
  auto argument = [&](unsigned i) {
    return func::FuncOp(functions.block).getArgument(i);
  };
  Value left = argument(0), leftStride = argument(1), right = argument(2);
  Value sums = argument(3), depth = argument(4), rowCount = argument(5);
  Value sumStride = lanes.i64(this->sumStride * wordBytes);
  Value rightStride = lanes.i64(rightStep * wordBytes);
  Value most = lanes.index(registerRows);
  Value lastRow = lanes.subIndex(rowCount, lanes.index(1));
  Value lower = tiles.move(
      left, lanes.make<arith::MulIOp>(
                lanes.toI64(lanes.minIndex(most, lastRow)), leftStride));

  auto forSums = [&](llvm::function_ref<void(int64_t, Value)> action) {
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < vectors; ++j) {
        int64_t offset =
            i * registerRows * this->sumStride * wordBytes + j * rowBytes;
        action(firstSum + 2 * i + j, tiles.move(sums, offset));
      }
  };
  auto loadSums = [&] {
    forSums([&](int64_t tile, Value at) { tiles.load(tile, at, sumStride); });
  };
  auto storeSums = [&] {
    forSums([&](int64_t tile, Value at) { tiles.store(tile, at, sumStride); });
  };
  auto resize = [&](Value rows, Value words) {
    lanes.builder.create<func::CallOp>(lanes.loc, functions.tiles,
                                       ValueRange{rows, words});
  };
  auto step = [&](Value word) {
    Value along = lanes.toI64(lanes.mulIndex(word, lanes.index(wordBytes)));
    Value down = lanes.make<arith::MulIOp>(lanes.toI64(word), rightStride);
    tiles.load(firstLeft, tiles.move(left, along), leftStride);
    tiles.load(firstLeft + 1, tiles.move(lower, along), leftStride);
    Value panel = tiles.move(right, down);
    for (int64_t j = 0; j < vectors; ++j)
      tiles.load(firstRight + j, tiles.move(panel, j * rowBytes), rightStride);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < vectors; ++j)
        tiles.multiply(firstSum + 2 * i + j, firstLeft + i, firstRight + j);
  };

  auto isLess = [&](Value a, Value b) {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
  };
  Value allRows = lanes.index(rows), allWords = lanes.index(words);
  Value hasFewRows = isLess(rowCount, allRows);
  lanes.ifThen(hasFewRows, [&] { resize(rowCount, allWords); });
  lanes.ifElse(
      argument(6), {},
      [&] {
        loadSums();
        return SmallVector<Value>();
      },
      [&] {
        forSums([&](int64_t tile, Value) { tiles.clear(tile); });
        return SmallVector<Value>();
      });
  Value rest = lanes.remIndex(depth, allWords);
  Value whole = lanes.subIndex(depth, rest);
  lanes.loop(lanes.index(0), whole, words, step);
  storeSums();
  Value hasRest = isLess(lanes.index(0), rest);
  lanes.ifThen(hasRest, [&] {
    // New sizes clear the registers.
    resize(rowCount, rest);
    loadSums();
    step(whole);
    storeSums();
  });
  Value resized = lanes.make<arith::OrIOp>(hasFewRows, hasRest);
  lanes.ifThen(resized, [&] { resize(allRows, allWords); });
  lanes.builder.create<func::ReturnOp>(lanes.loc);
}

void TileBlock::call(LaneBuilder &lanes, const Functions &functions,
                     const Arguments &arguments) {
  lanes.builder.create<func::CallOp>(
      lanes.loc, functions.block,
      ValueRange{arguments.left, arguments.leftStride, arguments.right,
                 arguments.sums, arguments.words, arguments.rows,
                 arguments.continues});
}

void TileBlock::begin(LaneBuilder &lanes, const Functions &functions) {
  lanes.builder.create<func::CallOp>(
      lanes.loc, functions.tiles,
      ValueRange{lanes.index(rows), lanes.index(words)});
}

void TileBlock::end(LaneBuilder &lanes) {
  TileBuilder(lanes).call("tilerelease", {});
}

} // namespace codegen
} // namespace anabranch
