// A small record on disk that is often replaced in place. Its two slots are written in turn, so
// that one of them is whole whatever happens. docs/internals/format.md draws the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file/file.h"
#include "topicdb/status.h"

namespace topicdb {

// Eight bytes that say what the file is.
using SlotMagic = std::string_view;

// Reads and replaces the record. The caller of Create or Open owns it. Not thread-safe.
class SlotFile {
 public:
  // Makes the file with `content` in both slots, and fsyncs it. Replaces a file of that name.
  static Result<std::unique_ptr<SlotFile>> Create(const std::string& path, SlotMagic magic,
                                                  std::string_view content);
  // Opens the file. Returns kNotFound if there is none, and kCorruption if neither slot is whole.
  static Result<std::unique_ptr<SlotFile>> Open(const std::string& path, SlotMagic magic);

  // What Read returns: the content, and whether a slot was not whole.
  struct Stored {
    std::string content;
    bool damaged = false;
  };
  // Returns what is in a file, like Open, but does not keep the file open.
  static Result<Stored> Read(const std::string& path, SlotMagic magic);

  // Returns the content that was written last and is whole.
  const std::string& content() const { return content_; }
  // Returns whether a slot was not whole when the file was opened. content() may then be the one
  // before the last.
  bool damaged() const { return damaged_; }
  // Replaces the content. With `sync`, the new one is safe from loss of power when this returns.
  // After an error, content() is as before.
  Status Write(std::string_view content, bool sync);
  const std::string& path() const { return path_; }

 private:
  SlotFile(std::shared_ptr<File> file, std::string path, SlotMagic magic)
      : file_(std::move(file)), path_(std::move(path)), magic_(magic) {}
  // Reads both slots, and takes the newer one that is whole.
  Status Load();
  // Puts another file with `content` in both slots in the place of this one. After an error, the
  // next Write tries that again.
  Status Replace(std::string_view content);
  // Decodes a slot. Returns false if the bytes are not a whole one.
  bool Decode(std::string_view bytes, std::uint64_t* serial, std::string* content) const;
  // Returns the bytes of a slot.
  static std::string Encode(SlotMagic magic, std::uint64_t serial, std::size_t slot_bytes,
                            std::string_view content);
  // Returns the bytes of a file with `content` in both slots.
  static std::string EncodeFile(SlotMagic magic, std::uint64_t serial, std::string_view content);

  std::shared_ptr<File> file_;  // null: only read, or Replace has failed
  const std::string path_;
  const std::string magic_;
  std::size_t slot_bytes_ = 0;
  std::uint64_t serial_ = 0;   // of content_; each Write has the next one
  std::size_t next_slot_ = 0;  // that Write replaces: the older or damaged one
  std::string content_;
  bool damaged_ = false;
};

}  // namespace topicdb
