// Values of NFS version 3 and its MOUNT protocol (RFC 1813), and of ONC RPC (RFC 5531).
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic::nfs {

inline constexpr std::uint32_t kNfsProgram = 100003;
inline constexpr std::uint32_t kMountProgram = 100005;
inline constexpr std::uint32_t kVersion = 3;  // of both

enum class Procedure : std::uint32_t {
    kNull = 0,
    kGetattr,
    kSetattr,
    kLookup,
    kAccess,
    kReadlink,
    kRead,
    kWrite,
    kCreate,
    kMkdir,
    kSymlink,
    kMknod,
    kRemove,
    kRmdir,
    kRename,
    kLink,
    kReaddir,
    kReaddirplus,
    kFsstat,
    kFsinfo,
    kPathconf,
    kCommit,
};

enum class MountProcedure : std::uint32_t { kNull = 0, kMnt, kDump, kUmnt, kUmntall, kExport };

enum class Status : std::uint32_t {
    kOk = 0,
    kNoent = 2,
    kAcces = 13,
    kExist = 17,
    kNotdir = 20,
    kIsdir = 21,
    kInval = 22,
    kFbig = 27,
    kNospc = 28,
    kMlink = 31,
    kNametoolong = 63,
    kNotempty = 66,
    kStale = 70,
    kBadhandle = 10001,
    kNotSync = 10002,
    kBadCookie = 10003,
    kNotsupp = 10004,
    kToosmall = 10005,
};

enum class FileType : std::uint32_t { kRegular = 1, kDirectory = 2, kSymlink = 5 };
enum class CreateMode : std::uint32_t { kUnchecked = 0, kGuarded, kExclusive };
enum class StableHow : std::uint32_t { kUnstable = 0, kDataSync, kFileSync };
enum class SetTime : std::uint32_t { kDontChange = 0, kServerTime, kClientTime };

// ACCESS (3.3.4).
inline constexpr std::uint32_t kAccessAll = 0x3f;
inline constexpr std::uint32_t kAccessDelete = 0x10;  // of a directory's entries
inline constexpr std::uint32_t kAccessLookup = 0x02;  // likewise
inline constexpr std::uint32_t kAccessExecute = 0x20;

inline constexpr std::size_t kMaxHandleOctets = 64;
inline constexpr std::size_t kMaxNameOctets = 255;
inline constexpr std::size_t kMaxPathOctets = 1024;
inline constexpr std::size_t kVerifierOctets = 8;
// What one READ or WRITE moves at most: what Linux asks for at most.
inline constexpr std::uint32_t kMaxTransferOctets = 1U << 20U;
inline constexpr std::uint32_t kMaxDirectoryOctets = 1U << 16U;

// RPC (RFC 5531, section 9).
inline constexpr std::uint32_t kRpcVersion = 2;
inline constexpr std::uint32_t kCall = 0;
inline constexpr std::uint32_t kReply = 1;
inline constexpr std::uint32_t kMsgAccepted = 0;
inline constexpr std::uint32_t kMsgDenied = 1;
inline constexpr std::uint32_t kRpcMismatch = 0;
inline constexpr std::uint32_t kAuthNone = 0;
inline constexpr std::uint32_t kAuthSys = 1;
inline constexpr std::size_t kMaxAuthOctets = 400;
enum class Accepted : std::uint32_t {
    kSuccess = 0,
    kProgUnavail,
    kProgMismatch,
    kProcUnavail,
    kGarbageArgs,
};

}  // namespace urnic::nfs
