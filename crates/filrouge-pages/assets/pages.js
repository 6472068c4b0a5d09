// When a sign-in has ended, parts of pages cannot be loaded: the whole page is, and shows the form to sign in.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload();
});
