//! Symbols of the libraries that the process has loaded, by the C library's own `dlsym`; the one that this library exports uses this module. A lookup
//! is slow, and happens once for each function.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};

pub(crate) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's `dlsym`. It is looked up with its version, because the plain name would lead to ours.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub(crate) fn real_dlsym() -> Option<Dlsym> {
    use core::sync::atomic::{AtomicPtr, Ordering};

    unsafe extern "C" {
        fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    }

    static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    for version in [c"GLIBC_2.34", c"GLIBC_2.2.5"] {
        if real.is_null() {
            // SAFETY: the strings end with zeros.
            real = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            REAL.store(real, Ordering::Relaxed);
        }
    }
    // SAFETY: the pointer is null, which is `None`, or that function.
    unsafe { core::mem::transmute::<*mut c_void, Option<Dlsym>>(real) }
}

/// On platforms where we export no `dlsym`, the real one is linked as usual.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub(crate) fn real_dlsym() -> Option<Dlsym> {
    Some(libc::dlsym)
}

/// A symbol; null if there is none. `handle` may be `RTLD_NEXT`: the libraries after this one.
pub(crate) fn symbol(handle: *mut c_void, name: &CStr) -> *const c_void {
    let Some(real) = real_dlsym() else { return null() };
    // SAFETY: the name ends with a zero; the handle is that of an open library, or a special one.
    let found = unsafe { real(handle, name.as_ptr()) };
    if found.is_null() {
        // The program must not get our lookup's error from `dlerror`.
        // SAFETY: `dlerror` has no preconditions.
        unsafe { libc::dlerror() };
    }
    found
}

/// The next symbol with this name after `ours`, in the linker's order.
pub(crate) fn next_symbol(name: &CStr, ours: *const c_void) -> Option<*const c_void> {
    Some(symbol(libc::RTLD_NEXT, name)).filter(|found| !found.is_null() && *found != ours)
}

/// A symbol of a library that is already loaded under this name; the first of `names` that it has.
pub(crate) fn symbol_of(library: &CStr, names: &[&CStr], except: *const c_void) -> *const c_void {
    // SAFETY: the name ends with a zero. Nothing is loaded.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if handle.is_null() {
        // SAFETY: `dlerror` has no preconditions.
        unsafe { libc::dlerror() };
        return null();
    }
    let symbols = names.iter().map(|name| symbol(handle, name));
    let found = symbols.into_iter().find(|found| !found.is_null() && *found != except).unwrap_or(null());
    // SAFETY: the handle is ours. The library stays open for its opener.
    unsafe { libc::dlclose(handle) };
    found
}

/// A search for the name of the loaded library at an index in the linker's order.
struct Search {
    left: usize,
    name: [u8; 4096],
    is_found: bool,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `data` is the caller's search, which outlives this call.
    let search = unsafe { &mut *data.cast::<Search>() };
    if let Some(left) = search.left.checked_sub(1) {
        search.left = left;
        return 0;
    }
    // SAFETY: the linker passes a complete description, whose name ends with a zero.
    let name = unsafe { (*info).dlpi_name };
    search.is_found = true;
    search.name = [0; 4096];
    if !name.is_null() {
        // SAFETY: as above.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        if let Some(to) = search.name.get_mut(..bytes.len()).filter(|to| to.len() < 4096) {
            to.copy_from_slice(bytes);
        }
    }
    1
}

/// A symbol of any loaded library. Libraries are opened outside of `dl_iterate_phdr`, which holds a lock on the linker's list.
pub(crate) fn symbol_of_any(names: &[&CStr], except: *const c_void) -> *const c_void {
    for index in 0..10_000 {
        let mut search = Search { left: index, name: [0; 4096], is_found: false };
        // SAFETY: `visit` gets the search that it expects.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        if !search.is_found {
            break;
        }
        // The program itself has no name. Its symbols come before ours.
        if let Some(library) = CStr::from_bytes_until_nul(&search.name).ok().filter(|name| !name.is_empty()) {
            let found = symbol_of(library, names, except);
            if !found.is_null() {
                return found;
            }
        }
    }
    null()
}

/// The start address of the library that contains an address; null if there is none.
pub(crate) fn library_of(address: *const c_void) -> *const c_void {
    about(address).map_or(null(), |about| about.dli_fbase.cast_const())
}

fn about(address: *const c_void) -> Option<libc::Dl_info> {
    let mut about =
        libc::Dl_info { dli_fname: null::<c_char>(), dli_fbase: null_mut(), dli_sname: null(), dli_saddr: null_mut() };
    // SAFETY: `about` may be written; any address is allowed.
    (unsafe { libc::dladdr(address, &raw mut about) } != 0).then_some(about)
}

/// Keeps the library of an address loaded, because the address is kept.
pub(crate) fn pin(address: *const c_void) {
    let Some(about) = about(address).filter(|about| !about.dli_fname.is_null()) else { return };
    let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY | libc::RTLD_NODELETE;
    // SAFETY: the name is the linker's and ends with a zero; nothing new is loaded.
    unsafe {
        let handle = libc::dlopen(about.dli_fname, flags);
        if handle.is_null() {
            // The program itself cannot be opened by its name, and is never unloaded.
            libc::dlerror();
        } else {
            libc::dlclose(handle);
        }
    }
}
