// Helpers of emitted source. A file takes only the helpers that it uses.
//
//   const HelperText helpers("#define lathe_one 1\n#define lathe_two (lathe_one * 2)\n#define lathe_x 10\n");
//   helpers.used_by("int y = lathe_two;"); // the first two lines
//
// HelperText finds the helpers that a helper needs by the words of its text. So the text must have this
// layout:
// - A definition begins on a line of its own: #define, #undef, or declarations. Declarations end at a line
//   that ends with the last of them. A declaration defines the first name in it that begins with lathe_. One
//   without such a name is in every file. Declarations that share a line stay together. ## may build a name
//   only if another name on the same line is whole.
// - A comment on a line of its own, or an empty line, is a heading. It heads the text up to the next heading,
//   or to the end of the conditional around it. A file contains a heading, or a conditional, if it contains
//   anything under it.
// - Any other directive, such as #include, is in every file, with the conditionals around it.
//
// Immutable: used_by may be called from any thread.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::render {

class HelperText {
public:
  /// Throws InternalError if the text does not have the layout above.
  explicit HelperText(std::string_view text);

  /// The helpers that words of `code` name, and all helpers that these need in turn, in the order of the
  /// text. Looks into all branches of conditionals.
  std::string used_by(std::string_view code) const;

private:
  struct Piece { // lines that stay together
    std::string text;
    size_t group; // the innermost conditional or heading around the piece
  };
  class Reader;

  std::vector<Piece> pieces_;
  /// By group: the pieces that frame it, such as a heading or #if and #endif. A file that has any piece of
  /// the group has its frame. Group 0 is the whole text.
  std::vector<std::vector<size_t>> frames_;
  std::vector<size_t> in_every_file_;
  std::map<std::string, std::vector<size_t>, std::less<>> definitions_; // a name may have one per target
};

} // namespace lathe::render
