//! The functions that SQLite calls.
#![expect(
    unsafe_code,
    reason = "SQLite calls a virtual file system through C functions and pointers"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::disk::{Disk, DiskError};
use crate::locks::{REGION, SHARED_LOCKS, SharedRequest};

/// The longest name of a file.
const LONGEST_NAME: c_int = 512;
/// The julian day of 1970-01-01 in milliseconds, plus a day of 2026: the clock of the simulation stands still.
const TIME_MS: i64 = 210_866_760_000_000 + 1_770_000_000_000;

/// A file system that SQLite knows by its name. It stays registered until the process ends.
///
/// Its database may be used by several connections of one thread. Connections that were opened before a crash fail in
/// every operation; drop them.
#[derive(Debug, Clone)]
pub struct MockVfs {
    name: String,
    disk: Arc<Mutex<Disk>>,
}

/// A file that SQLite has opened. SQLite knows the first field only.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    handle: *mut Handle,
}

/// The part of an open file that SQLite does not see.
struct Handle {
    disk: Arc<Mutex<Disk>>,
    name: String,
    number: u64,
    generation: u64,
    deletes_on_close: bool,
}

impl MockVfs {
    /// Registers a new file system without files, whose chances depend on a seed.
    ///
    /// # Panics
    /// If SQLite refuses it.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("crash-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let disk = Arc::new(Mutex::new(Disk::new(seed)));
        let c_name = CString::new(name.clone()).expect("it has no zero byte");
        let vfs = Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size_of::<OpenFile>() as c_int,
            mxPathname: LONGEST_NAME,
            pNext: std::ptr::null_mut(),
            zName: c_name.into_raw(),
            pAppData: Box::into_raw(Box::new(Arc::clone(&disk))).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: None,
            xGetLastError: None,
            xCurrentTimeInt64: Some(current_time),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        });
        // SAFETY: the structure and what it points to are never freed.
        let registered = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(vfs), 0) };
        assert_eq!(registered, ffi::SQLITE_OK, "SQLite takes any file system");
        Self { name, disk }
    }

    /// Returns the name by which SQLite knows the file system.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Loses the power and restores it: what was synced stays, and of the rest what chance leaves.
    pub fn crash(&self) {
        lock(&self.disk).crash();
    }

    /// Loses the power at the n-th operation from now; 1 is the next one. It comes back with [`crash`](Self::crash).
    pub fn fail_at(&self, operation: u64) {
        let mut disk = lock(&self.disk);
        disk.fails_at = Some(disk.operations + operation);
    }

    /// Lets the next syncs fail.
    pub fn fail_syncs(&self, count: u64) {
        let mut disk = lock(&self.disk);
        let next = disk.syncs + 1;
        disk.failing_syncs = next..next + count;
    }

    /// Lets the n-th sync from now fail; 1 is the next one.
    pub fn fail_sync(&self, sync: u64) {
        let mut disk = lock(&self.disk);
        let failing = disk.syncs + sync;
        disk.failing_syncs = failing..failing + 1;
    }

    /// Limits the bytes by which files may grow; `None` removes the limit.
    pub fn limit_room(&self, bytes: Option<u64>) {
        lock(&self.disk).room = bytes;
    }

    /// Returns the number of syncs so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        lock(&self.disk).syncs
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns SQLite's code of an error in an operation.
fn code(error: DiskError, operation: c_int) -> c_int {
    match error {
        DiskError::PowerLost => operation,
        DiskError::Sync => ffi::SQLITE_IOERR_FSYNC,
        DiskError::Full => ffi::SQLITE_FULL,
    }
}

/// Returns the disk of a file system.
///
/// # Safety
/// `vfs` was registered by [`MockVfs::new`].
unsafe fn disk_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Arc<Mutex<Disk>> {
    // SAFETY: pAppData points to an Arc that is never freed.
    unsafe { &*(*vfs).pAppData.cast::<Arc<Mutex<Disk>>>() }
}

/// Returns the handle of an open file.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn handle_of<'a>(file: *mut ffi::sqlite3_file) -> &'a Handle {
    // SAFETY: `open` has set the handle, and only `close` frees it.
    unsafe { &*(*file.cast::<OpenFile>()).handle }
}

/// Returns a name that SQLite has passed.
///
/// # Safety
/// `name` is null or ends with a zero byte.
unsafe fn text(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: SQLite passes the file system that was registered, and a name or null for a temporary file.
    let (disk, name) = unsafe { (disk_of(vfs), text(name)) };
    let name = name.unwrap_or_else(|| format!("temporary-{number}"));
    let mut locked = lock(disk);
    let opened = locked.open(&name, flags & ffi::SQLITE_OPEN_CREATE != 0);
    let generation = locked.generation();
    drop(locked);
    let file = file.cast::<OpenFile>();
    // SAFETY: SQLite has allocated szOsFile bytes. Without methods it does not close a file that was not opened.
    unsafe { (*file).base.pMethods = std::ptr::null() };
    match opened {
        Ok(true) => {}
        Ok(false) | Err(_) => return ffi::SQLITE_CANTOPEN,
    }
    let handle = Handle {
        disk: Arc::clone(disk),
        name,
        number,
        generation,
        deletes_on_close: flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0,
    };
    // SAFETY: as above; `out_flags` is null or points to an integer.
    unsafe {
        (*file).handle = Box::into_raw(Box::new(handle));
        (*file).base.pMethods = &raw const METHODS;
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, and does not use it afterwards.
    let handle = unsafe { Box::from_raw((*file.cast::<OpenFile>()).handle) };
    let mut disk = lock(&handle.disk);
    disk.release(handle.number, handle.generation, &handle.name);
    if handle.deletes_on_close && handle.generation == disk.generation() {
        // Without power there is nothing to delete.
        let _ = disk.delete(&handle.name, false);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the file is open, and the buffer has that length.
    let (handle, buffer) = unsafe {
        let bytes = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length as usize);
        (handle_of(file), bytes)
    };
    match lock(&handle.disk).read(handle.generation, &handle.name, offset as usize, buffer) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(error) => code(error, ffi::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    buffer: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the file is open, and the buffer has that length.
    let (handle, bytes) = unsafe {
        let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), length as usize);
        (handle_of(file), bytes)
    };
    let written = lock(&handle.disk).write(handle.generation, &handle.name, offset as usize, bytes);
    result(written, ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    let truncated = lock(&handle.disk).truncate(handle.generation, &handle.name, length as usize);
    result(truncated, ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    let synced = lock(&handle.disk).sync(handle.generation, &handle.name);
    result(synced, ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    match lock(&handle.disk).length(handle.generation, &handle.name) {
        Ok(length) => {
            // SAFETY: SQLite passes a pointer for the result.
            unsafe { *size = length as i64 };
            ffi::SQLITE_OK
        }
        Err(error) => code(error, ffi::SQLITE_IOERR_FSTAT),
    }
}

unsafe extern "C" fn lock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    let mut disk = lock(&handle.disk);
    match disk.lock(handle.number, handle.generation, &handle.name, level) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_BUSY,
        Err(error) => code(error, ffi::SQLITE_IOERR_LOCK),
    }
}

unsafe extern "C" fn unlock_file(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    lock(&handle.disk).unlock(handle.number, handle.generation, &handle.name, level);
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    match lock(&handle.disk).is_reserved(handle.generation, &handle.name) {
        Ok(is_reserved) => {
            // SAFETY: SQLite passes a pointer for the result.
            unsafe { *result = c_int::from(is_reserved) };
            ffi::SQLITE_OK
        }
        Err(error) => code(error, ffi::SQLITE_IOERR_CHECKRESERVEDLOCK),
    }
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

/// SQLite on Linux assumes this too.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extends: c_int,
    address: *mut *mut c_void,
) -> c_int {
    if size as usize != REGION {
        return ffi::SQLITE_IOERR_SHMMAP;
    }
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    let mut disk = lock(&handle.disk);
    let (generation, index) = (handle.generation, region as usize);
    match disk.region(generation, &handle.name, index, extends != 0) {
        Ok(found) => {
            let found = found.map_or(std::ptr::null_mut(), |region| region.cast());
            // SAFETY: SQLite passes a pointer for the result.
            unsafe { *address = found };
            ffi::SQLITE_OK
        }
        Err(error) => code(error, ffi::SQLITE_IOERR_SHMMAP),
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let entries = offset as usize..(offset + count) as usize;
    if entries.end > SHARED_LOCKS {
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    let request = match flags {
        _ if flags & ffi::SQLITE_SHM_UNLOCK != 0 => SharedRequest::Unlock,
        _ if flags & ffi::SQLITE_SHM_EXCLUSIVE != 0 => SharedRequest::Exclude,
        _ => SharedRequest::Share,
    };
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    let mut disk = lock(&handle.disk);
    let (number, generation) = (handle.number, handle.generation);
    match disk.lock_shared(number, generation, &handle.name, entries, request) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_BUSY,
        Err(error) => code(error, ffi::SQLITE_IOERR_SHMLOCK),
    }
}

/// All connections are on one thread.
unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, deletes: c_int) -> c_int {
    // SAFETY: the file is open.
    let handle = unsafe { handle_of(file) };
    if deletes != 0 {
        lock(&handle.disk).remove_shared(handle.generation, &handle.name);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: SQLite passes the file system that was registered, and a name.
    let (disk, name) = unsafe { (disk_of(vfs), text(name)) };
    match lock(disk).delete(&name.unwrap_or_default(), sync_dir != 0) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_DELETE_NOENT,
        Err(error) => code(error, ffi::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the file system that was registered, and a name.
    let (disk, name) = unsafe { (disk_of(vfs), text(name)) };
    match lock(disk).exists(&name.unwrap_or_default()) {
        Ok(exists) => {
            // SAFETY: SQLite passes a pointer for the result.
            unsafe { *result = c_int::from(exists) };
            ffi::SQLITE_OK
        }
        Err(error) => code(error, ffi::SQLITE_IOERR_ACCESS),
    }
}

unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a name that ends with a zero byte.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name.len() > length as usize {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the output has that length.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes the file system that was registered, and an output of that length.
    let (disk, bytes) = unsafe {
        let bytes = std::slice::from_raw_parts_mut(out.cast::<u8>(), length as usize);
        (disk_of(vfs), bytes)
    };
    lock(disk).random_bytes(bytes);
    length
}

/// Nobody waits in the simulation: what is locked stays locked until its holder goes on.
unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, time: *mut i64) -> c_int {
    // SAFETY: SQLite passes a pointer for the result.
    unsafe { *time = TIME_MS };
    ffi::SQLITE_OK
}

fn result(done: Result<(), DiskError>, operation: c_int) -> c_int {
    match done {
        Ok(()) => ffi::SQLITE_OK,
        Err(error) => code(error, operation),
    }
}
