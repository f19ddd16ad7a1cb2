//===- GraphReaderTest.cpp - graph descriptions, good and bad -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/graph/GraphReader.h"
#include "ir/Anabranch.h"

#include "mlir/IR/Diagnostics.h"
#include <gtest/gtest.h>

namespace {

/// The module as text, or the first diagnostic after "error: ".
std::string import(llvm::StringRef graph) {
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (text.empty())
                                            text = "error: " + diagnostic.str();
                                          return mlir::success();
                                        });
  mlir::OwningOpRef<mlir::ModuleOp> module =
      anabranch::importGraph(graph, context);
  if (!module)
    return text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

/// A graph with one input `x`, these nodes and this output.
std::string graph(llvm::StringRef nodes, llvm::StringRef output) {
  return (R"({"version": 1, "name": "g", "symbols": [{"name": "s0"}],
    "inputs": [{"name": "x", "kind": "input", "dtype": "f32",
                "shape": [2, "s0"]}],
    "nodes": [)" +
          nodes + R"(], "outputs": [)" + output + "]}")
      .str();
}

bool contains(const std::string &text, llvm::StringRef part) {
  return llvm::StringRef(text).contains(part);
}

TEST(GraphReader, ReadsANodeWithSymbols) {
  std::string text = import(graph(
      R"({"name": "y", "op": "aten.cat.default",
          "args": {"tensors": [{"ref": "x"}, {"ref": "x"}], "dim": -1},
          "results": [{"dtype": "f32", "shape": [2, ["mul", 2, "s0"]]}],
          "loc": {"file": "m.py", "line": 3}})",
      R"({"ref": "y"}, {"expr": "s0"}, {"none": true})"));
  EXPECT_TRUE(contains(text, "anabranch.aten \"cat\"(%arg0) dims(%"));
  EXPECT_TRUE(contains(text, "tensors = [#anabranch.operand<0>, "
                             "#anabranch.operand<0>]"));
  EXPECT_TRUE(contains(text, "-> tensor<2x?xf32>"));
  EXPECT_TRUE(contains(text, "tensor.dim"));
}

TEST(GraphReader, KeepsFloatsApart) {
  std::string text = import(graph(
      R"({"name": "y", "op": "aten.clamp.default",
          "args": {"self": {"ref": "x"}, "min": {"float": "-inf"},
                   "max": {"float": 2}, "n": 2, "o": null,
                   "d": {"dtype": "u8"}},
          "results": [{"dtype": "u8", "shape": [2, "s0"]}]})",
      R"({"ref": "y"})"));
  EXPECT_TRUE(contains(text, "min = 0xFFF0000000000000 : f64"));
  EXPECT_TRUE(contains(text, "max = 2.000000e+00 : f64"));
  EXPECT_TRUE(contains(text, "n = 2 : i64"));
  EXPECT_TRUE(contains(text, ", o, "));
  EXPECT_TRUE(contains(text, "d = ui8"));
  EXPECT_TRUE(contains(text, "unsignedResults = array<i64: 0>"));
}

/// A region gets a float as its bits, in a scalar.
TEST(GraphReader, ComparesFloatsThatAreBits) {
  std::string text =
      import(graph("", R"({"expr": ["lt", ["bits", "s0"], {"float": 1.5}]},
                          {"expr": ["le", "s0", 3]},
                          {"expr": ["eq", {"float": 1.5}, ["bits", "s0"]]})"));
  EXPECT_TRUE(contains(text, "arith.bitcast %"));
  EXPECT_TRUE(contains(text, "arith.cmpf olt"));
  EXPECT_TRUE(contains(text, "arith.cmpi sle"));
  EXPECT_TRUE(contains(text, "arith.cmpf oeq"));
  EXPECT_TRUE(contains(text, "arith.index_castui %"));
}

TEST(GraphReader, ReadsMutations) {
  std::string text = import(R"({"version": 1,
    "inputs": [{"name": "x", "label": "cache", "kind": "buffer",
                "dtype": "i64", "shape": [4], "mutated": true}],
    "nodes": [{"name": "y", "op": "aten.add.Tensor",
               "args": {"self": {"ref": "x"}, "other": 1, "alpha": 1},
               "results": [{"dtype": "i64", "shape": [4]}]}],
    "outputs": [], "mutations": [{"input": "x", "value": "y"}]})");
  EXPECT_TRUE(contains(text, "anabranch.writes = 0"));
  EXPECT_TRUE(contains(text, "anabranch.mutated"));
  EXPECT_TRUE(contains(text, "anabranch.name = \"cache\""));
}

/// The module of a call that writes its argument. `write` is its old value.
std::string writing(llvm::StringRef argument, llvm::StringRef write,
                    llvm::StringRef shape) {
  std::string node =
      (R"({"name": "y", "op": "mylib.scale.default", "args": {"x": )" +
       argument + R"(}, "results": [{"dtype": "f32", "shape": )" + shape +
       R"(}], "writes": [)" + write + R"(], "ordered": true})")
          .str();
  return import(graph(node, R"({"ref": "y"})"));
}

TEST(GraphReader, ReadsWrites) {
  std::string view = R"({"written": 0, "sizes": ["s0"], "strides": [1],
                         "offset": ["mul", 1, "s0"]})";
  std::string text =
      writing(view, R"({"ref": "x", "strides": [9, 1]})", R"([2, "s0"])");
  EXPECT_TRUE(contains(text, "\"mylib::scale\"("));
  EXPECT_TRUE(contains(text, "sizes = [#anabranch.operand<"));
  EXPECT_TRUE(contains(text, "strides = [1], written = 0 : i64}"));
  EXPECT_TRUE(contains(text, "anabranch.written = array<i64: "));
  EXPECT_TRUE(contains(text, "written_strides = [array<i64: 9, 1>]"));
  text = writing(R"({"written": 0})", "null", "[4]");
  EXPECT_TRUE(contains(text, "anabranch.written = array<i64: -1>"));

  std::string shape = R"([2, "s0"])", x = R"({"ref": "x"})";
  EXPECT_TRUE(contains(writing(R"({"written": 1})", x, shape),
                       "writes a memory that it does not name"));
  EXPECT_TRUE(contains(writing(R"({"written": 0})", x, "[4]"),
                       "changes the type of operand"));
  EXPECT_TRUE(contains(writing(R"({"written": 0})", x + ", " + x, shape),
                       "writes 2 memories but has 1 results"));
  EXPECT_TRUE(contains(
      writing(R"({"written": 0, "sizes": [1], "strides": [], "offset": 0})", x,
              shape),
      "a view needs a stride for each size"));
}

TEST(GraphReader, ReadsWatchedWeights) {
  auto reading = [](const char *input) {
    return import(std::string(R"({"version": 1,
      "inputs": [{"name": "w", "kind": "parameter", "dtype": "f32",
                  "watched": true, )") +
                  input + R"(}], "nodes": [], "outputs": [{"ref": "w"}]})");
  };
  const char *refusal =
      "a watched input has known sizes, no value, and no writes";
  EXPECT_TRUE(contains(reading(R"("shape": [4])"), "anabranch.watched"));
  EXPECT_TRUE(contains(reading(R"("shape": [4], "mutated": true)"), refusal));
  EXPECT_TRUE(contains(reading(R"("shape": [4], "constant": "w")"), refusal));
}

TEST(GraphReader, NamesWhatIsWrong) {
  EXPECT_TRUE(contains(import("{"), "is no JSON"));
  EXPECT_TRUE(contains(import("[]"), "must be an object"));
  EXPECT_TRUE(contains(import("{}"), "version 1"));
  EXPECT_TRUE(contains(import(std::string(100000, '[')), "too deeply"));
  EXPECT_TRUE(contains(import(graph("", R"({"ref": "z"})")),
                       "no node before this one is named 'z'"));
  EXPECT_TRUE(contains(import(graph("", R"({"expr": "s9"})")),
                       "no input defines the symbol 's9'"));
  EXPECT_TRUE(contains(import(graph("", R"({"expr": ["pow", 2, "s0"]})")),
                       "no such size"));
  EXPECT_TRUE(contains(import(graph(R"({"name": "y", "op": "aten.relu",
      "args": {"self": {"ref": "x", "result": 1}}, "results": []})",
                                    "")),
                       "'x' has no result 1"));
  EXPECT_TRUE(contains(import(graph(R"({"name": "y", "op": "aten.relu",
      "args": {}, "results": [{"dtype": "f31", "shape": []}]})",
                                    "")),
                       "no such dtype: 'f31'"));
  EXPECT_TRUE(contains(import(graph(R"({"name": "y", "op": "aten.relu",
      "args": {}, "results": [{"dtype": "f32", "shape": [-1]}]})",
                                    "")),
                       "a size is negative"));
}

} // namespace
