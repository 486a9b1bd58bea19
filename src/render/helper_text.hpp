// Helpers of emitted source, of which a file takes what it uses.
//
//   const HelperText helpers("#define lathe_one 1\n#define lathe_two (lathe_one * 2)\n#define lathe_x 10\n");
//   helpers.used_by("int y = lathe_two;"); // the first two lines
//
// What a helper needs is found in its text. So that this can be done by words alone, the text is laid out so:
// - A definition begins on a line of its own: #define, #undef, or declarations up to a line that ends with
//   the last of them. A declaration defines the first name in it that begins with lathe_; without one it is
//   in every file. Those that share a line stay together. No name is put together by ##, unless one on its
//   line is whole.
// - A comment on a line of its own, or an empty line, heads what follows, up to the next of them or to the
//   end of the conditional around it, and goes where all of that goes. So does a conditional.
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
  /// Throws InternalError where the text is not laid out as above.
  explicit HelperText(std::string_view text);

  /// What the code's words name and what that needs in turn, whichever way the conditionals go, in the order
  /// of the text.
  std::string used_by(std::string_view code) const;

private:
  struct Piece { // lines that stay together
    std::string text;
    size_t group; // the innermost conditional or heading that it stands in
  };
  class Reader;

  std::vector<Piece> pieces_;
  /// Of each group the pieces that make it one, kept where anything in it is. The first is the whole text.
  std::vector<std::vector<size_t>> frames_;
  std::vector<size_t> in_every_file_;
  std::map<std::string, std::vector<size_t>, std::less<>> definitions_; // a name may have one for each target
};

} // namespace lathe::render
